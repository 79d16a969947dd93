"""Tests of what is made of samples: steps, table, flame graph and timeline."""

import json

import pytest

from slipway.launch.control import sampling
from slipway.launch.profiling import steps, views

_NODES, _REPLAY = "slipway.launch.nodes", "slipway.replay"
COLLECT = f"{_NODES}.collector:Collector.step"
STEP = "slipway.environments.vector:VectorEnvironment.step"
WRITE = f"{_REPLAY}.items.writer:ItemWriter.write"
WAIT = "threading:Event.wait"
FRAMES = ("my_loop:main", COLLECT, STEP, "my_game:step")
STACKS_OF_PROFILE = [*(FRAMES[:depth] for depth in range(1, 5)), (WAIT,)]

# innermost frames of a stack, and its step
STACKS = [
  ([COLLECT, STEP, "my_game:step"], "environment"),
  ([COLLECT, "slipway.agents.epsilon_greedy:EpsilonGreedyActor.act"], "actor"),
  ([COLLECT, f"{_REPLAY}.items.adder:NStepAdder.add"], "adder"),
  ([WRITE, "reverb.trajectory_writer:TrajectoryWriter.append"], "writer"),
  ([f"{_REPLAY}.items.writer:ItemWriter.wait", "reverb:flush"], "waiting"),
  ([f"{_REPLAY}.transport.relay_side:Side.data_received"], "relay"),
  ([f"{_NODES}.local_ports:LocalSink.write",
    f"{_REPLAY}.tables.local_table:LocalTable.insert"], "table"),
  ([f"{_NODES}.trainer:Trainer.step", "tensorflow:execute"], "update"),
  ([f"{_NODES}.trainer:Trainer._publish", "slipway.agents.a:b"], "variables"),
  ([f"{_REPLAY}.tables.priority_pusher:PriorityPusher._run"], "priorities"),
  ([f"{_NODES}.evaluation:play", STEP], "evaluation"),
  ([f"{_REPLAY}.tables.table_snapshot:TableSaver._save",
    "reverb.client:Client.checkpoint"], "snapshots"),
  (["launchpad.launch.worker_manager:WorkerManager.wait"], "waiting"),
  ([f"{_NODES}.link:Link.wait", WAIT], "waiting"),
  (["slipway.launch.processes.controller:Controller._control"], "control"),
  (["my_loop:main"], "other"),
  ([], "other"),
]  # fmt: skip


@pytest.mark.parametrize(("stack", "step"), STACKS)
def test_a_stack_belongs_to_a_step(stack, step):
  outermost = ["slipway.launch.processes.node_process:run"] if stack else []
  assert steps.find_step([*outermost, *stack]) == step
  assert step in steps.ORDER


def make_profile():
  """Returns 1 s of a main thread that steps a game, and of other threads."""
  main = [1, 2, 3, 3, 3, 1, 4, 4, 4, 0]
  short = [None] * 5 + [0, 0, 0, 4, 4]
  samples = []
  for index, stacks in enumerate(zip(main, short, [4] * 10, strict=True)):
    sample = {thread: x for thread, x in enumerate(stacks) if x is not None}
    samples.append((100.0 + index / 10, sample))
  return sampling.Profile(
    0.9, ["MainThread", "short", "idle"], STACKS_OF_PROFILE, samples
  )


def test_the_steps_of_a_process_add_up():
  lines = views.make_table({"worker/0": make_profile()}).splitlines()
  assert [line.split() for line in lines] == [
    ["worker/0"],
    ["environment", "40.0%"],
    ["actor", "15.0%"],  # half of a sample is that of the short thread
    ["other", "35.0%"],
    ["waiting", "10.0%"],
    ["CPU", "90.0%"],
  ]


def test_the_table_of_many_processes_fits_into_a_terminal():
  names = [f"evaluator/{index}" for index in range(12)]
  text = views.make_table(dict.fromkeys(names, make_profile()))
  assert max(map(len, text.splitlines())) <= 80
  assert [x for x in text.split() if "/" in x] == names


def read_slices(events):
  """Returns name, begin and duration of each slice, by the order of ends."""
  begun, found = [], []
  first_us = min(event["ts"] for event in events)
  for event in events:
    if event["ph"] == "B":
      begun.append(event)
    else:
      first = begun.pop()
      begin, duration = first["ts"] - first_us, event["ts"] - first["ts"]
      found.append((first["name"], begin, duration))
  assert not begun
  return found


def test_the_timeline_has_slices_that_are_nested():
  text = views.make_timeline({"worker/0": make_profile()})
  events = json.loads(text)["traceEvents"]
  names = [x["args"]["name"] for x in events if x["ph"] == "M"]
  assert names == ["worker/0", "MainThread", "short", "idle"]
  main = [x for x in events if x["ph"] != "M" and x["tid"] == 0]
  found = read_slices(main)
  # The last sample has no duration.
  assert [x for x in found if x[0] in steps.ORDER] == [
    ("actor", 0, 100_000),
    ("environment", 100_000, 400_000),
    ("actor", 500_000, 100_000),
    ("other", 900_000, 0),
  ]
  assert [x for x in found if x[0] == "my_game:step"] == [
    ("my_game:step", 200_000, 300_000)
  ]
  # The outermost function lasts as long as the step above it.
  assert ("my_loop:main", 100_000, 400_000) in found


def test_the_flame_graph_counts_the_stacks_that_do_not_wait():
  text = views.make_flame_graph({"worker/0": make_profile()})
  main, game = "worker/0;MainThread;", f"my_loop:main;{COLLECT}"
  assert sorted(text.splitlines()) == [
    f"{main}actor;{game} 2",
    f"{main}environment;{game};{STEP} 1",
    f"{main}environment;{game};{STEP};my_game:step 3",
    f"{main}other;my_loop:main 1",
    "worker/0;short;other;my_loop:main 3",
  ]


def test_a_run_without_a_process_has_empty_views():
  assert views.make_table({}) == views.make_flame_graph({}) == ""
  assert json.loads(views.make_timeline({})) == {"traceEvents": []}
