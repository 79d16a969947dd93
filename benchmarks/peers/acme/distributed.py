"""Distributed: runs an agent's learner and actors as Launchpad's processes.

The nodes are those of Acme's distributed agents, except for the evaluator,
which would take a core: the reporter plays the greedy episodes, all at once.
"""

# pyright: reportMissingImports=false, reportArgumentType=false

import math
import os
import time
import typing
from collections.abc import Callable

import acme
import launchpad as lp
import progress
import reverb
from acme.utils import counting

# Nodes of Acme's counter and learner, as Launchpad's handles.
Handle = typing.Any


class Agent(typing.NamedTuple):
  """Functions that make an agent's nodes, each from the name of the task.

  Attributes:
    make_tables: makes the tables of the replay server.
    make_learner: makes the learner, from clients of replay and counter.
    make_actor: makes an actor with its environment, from clients of replay,
      learner and counter.
    make_player: makes a function that plays greedy episodes and returns their
      mean return, from a client of the learner; None: no episodes are played.
    period: environment steps between two calls of that function.
  """

  make_tables: Callable[[str], list[reverb.Table]]
  make_learner: Callable[[str, Handle, Handle], acme.Learner]
  make_actor: Callable[[str, Handle, Handle, Handle], acme.EnvironmentLoop]
  make_player: Callable[[str, Handle], Callable[[], float]] | None = None
  period: int = 0


def patch_reverb() -> None:
  """Makes Reverb 0.11 ignore an argument that Acme 0.4.0 passes to writers."""
  write = reverb.Client.trajectory_writer

  def trajectory_writer(self, num_keep_alive_refs, **unused):
    return write(self, num_keep_alive_refs)

  reverb.Client.trajectory_writer = trajectory_writer


def run(agent: Agent, args: typing.Any, actors: int) -> None:
  """Runs an agent's processes until they are killed.

  Args:
    agent: functions that make the agent's nodes.
    args: flags of the program.
    actors: number of actors.
  """
  program = lp.Program("acme")
  with program.group("replay"):
    replay = program.add_node(
      lp.ReverbNode(lambda: agent.make_tables(args.task))
    )
  with program.group("counter"):
    counter = program.add_node(lp.CourierNode(counting.Counter))
  with program.group("learner"):
    learner = program.add_node(
      lp.CourierNode(agent.make_learner, args.task, replay, counter)
    )
  with program.group("actor"):
    for _ in range(actors):
      program.add_node(
        lp.CourierNode(agent.make_actor, args.task, replay, learner, counter)
      )
  with program.group("reporter"):
    # This process's stdout, since Launchpad sends that of nodes to files.
    path = f"/proc/{os.getpid()}/fd/{os.dup(1)}"
    program.add_node(lp.PyNode(_report, agent, args, path, learner, counter))
  lp.launch(
    program,
    launch_type=lp.LaunchType.LOCAL_MULTI_PROCESSING,
    terminal="output_to_files",
  ).wait()


def _report(
  agent: Agent, args: typing.Any, path: str, learner: Handle, counter: Handle
) -> None:
  """Writes the counts once per second, and evaluates the agent, for ever.

  Args:
    agent: functions that make the agent's nodes.
    args: flags of the program.
    path: path of the file to which the lines of progress are written.
    learner: client of the learner.
    counter: client of the counter.
  """
  out = os.open(path, os.O_WRONLY)
  until = math.inf if args.until is None else args.until
  play = None
  if args.until is not None and agent.make_player is not None:
    play = agent.make_player(args.task, learner)
  evaluated, evaluated_at, in_a_row = None, 0, 0
  while True:
    time.sleep(1.0)
    counts = counter.get_counts()
    env_steps = counts.get("actor_steps", 0)
    if play is not None and env_steps - evaluated_at >= agent.period:
      evaluated, evaluated_at = play(), env_steps
      in_a_row = in_a_row + 1 if evaluated >= until else 0
    progress.write_line(
      out,
      env_steps=env_steps,
      updates=counts.get("learner_steps", 0),
      mean_return=None,
      evaluated=evaluated,
      evaluated_at=evaluated_at,
      paused_s=0.0,
      reached=in_a_row == args.in_a_row,
    )
