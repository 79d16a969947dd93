"""Steps: which step of the data path a stack belongs to."""

from collections.abc import Sequence

WAITING, OTHER = "waiting", "other"
# A stack whose innermost frame begins with one of these waits.
_WAITS = (
  *("asyncio", "concurrent.futures", "multiprocessing.connection:"),
  *("queue:", "selectors:", "signal:", "socket:", "threading:"),
  "__main__:_stop_when_process_ends",  # of a run that Python has started
  "launchpad.launch.worker_manager:WorkerManager.wait",
  "slipway.launch.nodes.worker:Worker._may_step",
  "slipway.launch.launchers.single_loop:SingleLoop.step",  # a pause
  "slipway.replay.transport.relay:Relay._run",  # the loop has no event
)
# What a frame begins with, and the step of a stack that has such a frame. The
# first line with a match counts, so a step comes before those that call it.
_STEPS = (
  ("slipway.replay.items.writer:ItemWriter.wait", WAITING),  # for the table
  ("slipway.replay.items.writer:ItemWriter.flush", WAITING),
  ("slipway.launch.nodes.evaluation", "evaluation"),
  ("slipway.launch.nodes.evaluator:", "evaluation"),
  ("slipway.launch.nodes.snapshot_writer", "snapshots"),
  ("slipway.launch.runs.snapshot_store", "snapshots"),
  ("reverb.client:Client.checkpoint", "snapshots"),
  ("slipway.replay.tables.priority_pusher", "priorities"),
  ("slipway.replay.variables", "variables"),
  ("slipway.launch.nodes.local_ports:LocalVariables", "variables"),
  ("slipway.launch.nodes.trainer:Trainer._publish", "variables"),
  ("slipway.launch.nodes.collector:Collector.load", "variables"),
  ("slipway.environments", "environment"),
  ("slipway.replay.tables.dataset", "dataset"),
  ("slipway.replay.tables.queue_reader", "dataset"),
  ("slipway.replay.tables", "table"),
  ("slipway.replay.items.writer", "writer"),
  ("slipway.launch.nodes.local_ports:LocalSink", "writer"),
  ("slipway.replay.items", "adder"),
  ("slipway.replay.transport.relay", "relay"),
  ("slipway.launch.nodes.collector", "actor"),
  ("slipway.launch.nodes.link", "control"),
  ("slipway.launch.control", "control"),
  ("slipway.launch.display", "control"),
  ("slipway.launch.processes.controller", "control"),
  ("slipway.agents", "update"),
  ("slipway.launch.nodes.trainer", "update"),
)
# All steps in the order of the data path.
ORDER = (
  *("environment", "actor", "adder", "writer", "relay", "table", "dataset"),
  *("update", "priorities", "variables", "evaluation", "snapshots", "control"),
  *(OTHER, WAITING),
)


def find_step(stack: Sequence[str]) -> str:
  """Returns the step of a stack of `sampling.Profile`, one of `ORDER`."""
  if stack and stack[-1].startswith(_WAITS):
    return WAITING
  for prefix, step in _STEPS:
    if any(frame.startswith(prefix) for frame in stack):
      return step
  return OTHER
