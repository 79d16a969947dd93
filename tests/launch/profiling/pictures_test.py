"""Tests of what is made of samples: steps, table, trace and flame graph."""

import json
from xml.etree import ElementTree

import pytest

from slipway.launch.control import sampling
from slipway.launch.profiling import flame_graph, steps, table, trace

_NODES, _REPLAY = "slipway.launch.nodes", "slipway.replay"
COLLECT = f"{_NODES}.collector:Collector.step"
STEP = "slipway.environments.vector:VectorEnvironment.step"
WRITE = f"{_REPLAY}.items.writer:ItemWriter.write"
WAIT = "threading:Event.wait"
FRAMES = ["my_loop:main", COLLECT, STEP, "my_game:step", WAIT]

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
  """Returns 1 s of a main thread that steps a game, and of a short thread."""
  stacks = [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [4]]
  main = [1, 2, 3, 3, 3, 1, 4, 4, 4, 0]
  other = [sampling.NO_STACK] * 5 + [0, 0, 0, 4, 4]
  idle = [4] * 10
  return sampling.Profile(
    *(100.0, 1.0, 0.9),
    [x / 10 for x in range(10)],
    FRAMES,
    stacks,
    {
      "MainThread": sampling.ThreadProfile(0.5, main),
      "short": sampling.ThreadProfile(0.1, other),
      "idle": sampling.ThreadProfile(0.0, idle),
    },
  )


def test_the_table_has_the_shares_of_time():
  times = table.make_times(make_profile())
  assert times.steps == pytest.approx(
    {"environment": 0.4, "actor": 0.2, "other": 0.4, "waiting": 0.3}
  )
  assert (times.cpu_cores, times.cpp_cores) == pytest.approx((0.9, 0.3))
  lines = table.to_text({"worker/0": times}).splitlines()
  assert [line.split() for line in lines] == [
    ["worker/0"],
    ["environment", "40.0%"],
    ["actor", "20.0%"],
    ["other", "40.0%"],
    ["waiting", "30.0%"],
    ["CPU", "cores", "0.90"],
    ["of", "C++", "0.30"],
  ]


def test_the_table_of_many_processes_fits_into_a_terminal():
  times = table.make_times(make_profile())
  names = [f"evaluator/{index}" for index in range(12)]
  text = table.to_text(dict.fromkeys(names, times))
  assert max(map(len, text.splitlines())) <= 80
  assert [x for x in text.split() if "/" in x] == names


def read_slices(events):
  """Returns name, begin and duration of each slice, by the order of ends."""
  begun, found = [], []
  for event in events:
    if event["ph"] == "B":
      begun.append(event)
    else:
      first = begun.pop()
      found.append((first["name"], first["ts"], event["ts"] - first["ts"]))
  assert not begun
  return found


def test_the_trace_has_slices_that_are_nested():
  events = json.loads(trace.to_json({"worker/0": make_profile()}))
  events = events["traceEvents"]
  names = [x["args"]["name"] for x in events if x["ph"] == "M"]
  assert names == ["worker/0", "MainThread", "short"]
  main = [x for x in events if x["ph"] != "M" and x["tid"] == 1]
  found = read_slices(main)
  assert [x for x in found if x[0] in steps.ORDER] == [
    ("actor", 0, 100_000),
    ("environment", 100_000, 400_000),
    ("actor", 500_000, 100_000),
    ("waiting", 600_000, 300_000),
    ("other", 900_000, 100_000),
  ]
  assert [x for x in found if x[0] == "my_game:step"] == [
    ("my_game:step", 200_000, 300_000)
  ]
  # The outermost function lasts as long as the step above it.
  assert ("my_loop:main", 100_000, 400_000) in found


def test_the_flame_graph_shows_what_does_not_wait():
  svg = flame_graph.to_svg({"<worker>/0": make_profile()})
  root = ElementTree.fromstring(svg)
  space = "{http://www.w3.org/2000/svg}"
  titles = [x.text for x in root.iter(f"{space}title")]
  assert "<worker>/0: 100.0% of a thread" in titles
  assert "my_game:step: 30.0% of a thread" in titles
  assert not any(WAIT in title for title in titles)


def test_a_run_without_a_busy_thread_has_a_flame_graph():
  assert ElementTree.fromstring(flame_graph.to_svg({})) is not None
