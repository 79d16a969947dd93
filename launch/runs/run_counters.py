"""RunCounters: a run's counts, which each snapshot contains as run.json."""

import pathlib
import typing
from collections.abc import Iterable

import msgspec

from slipway.launch.runs import records

FILE = "run.json"  # name of the file with the counters in a snapshot's folder

# Types of fields that must not be negative; a reader rejects other values.
Count = typing.Annotated[int, msgspec.Meta(ge=0)]
Seconds = typing.Annotated[float, msgspec.Meta(ge=0.0)]


class NodeCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of one node, summed over all of its processes.

  Each process counts from 0; the control adds up the counts. Counts that
  the node's role does not have are 0.

  Attributes:
    env_steps: environment steps of a worker.
    episodes: training episodes of a worker that have ended.
    items_written: items passed to a worker's writer.
    items_confirmed: items that the server has confirmed.
    items_lost: items in flight when their stream broke or the worker died.
    items_discarded: items in flight when the worker stopped, which the table
      no longer accepted.
    reconnects: streams that a worker has reopened.
    variable_loads: versions of the variables that a worker has loaded.
    bytes_up: bytes that a proxy has relayed to the replay server.
    bytes_down: bytes that a proxy has relayed to the workers.
    variables_fetched: versions of the variables that a proxy has put into
      shared memory.
  """

  env_steps: Count = 0
  episodes: Count = 0
  items_written: Count = 0
  items_confirmed: Count = 0
  items_lost: int = 0
  items_discarded: Count = 0
  reconnects: Count = 0
  variable_loads: Count = 0
  bytes_up: Count = 0
  bytes_down: Count = 0
  variables_fetched: Count = 0

  @classmethod
  def from_sum(cls, all_counts: Iterable["NodeCounts"]) -> "NodeCounts":
    """Returns the sums of the counts of several nodes or processes."""
    rows = [msgspec.structs.astuple(counts) for counts in all_counts]
    return cls(*map(sum, zip(*rows, strict=True)))


class NodeCounters(msgspec.Struct, frozen=True):
  """Counts, restarts and processes of one node.

  Attributes:
    earlier: sums over the node's processes before the newest one.
    newest: counts of the newest process, which may outlive a resume of the run
      if it is external.
    process: unix seconds at which the newest process began to report, which
      identify it; 0 if there is none.
    restarts: number of restarts while the run was active.
    incarnations: number of the node's processes, including those before a
      resume.
  """

  earlier: NodeCounts = NodeCounts()
  newest: NodeCounts = NodeCounts()
  process: Seconds = 0.0
  restarts: Count = 0
  incarnations: Count = 0

  @property
  def counts(self) -> NodeCounts:
    """Sums over all processes of the node."""
    return NodeCounts.from_sum([self.earlier, self.newest])


class RunCounters(msgspec.Struct, frozen=True):
  """The counts from which a resumed run continues.

  ```python
  counters.write(folder)
  counters = RunCounters.read(folder)
  ```

  Attributes:
    mode: the config's mode.
    environment_steps: environment steps of all workers.
    episodes: training episodes of all workers.
    trainer_steps: updates of the learner.
    variables_version: highest published version of the variables.
    replay_size: items in the table, or in all shards.
    wall_s: duration of the run in seconds, without the time between a stop and
      a resume.
    evaluations: number of evaluations, each of which is a row of curves.csv.
    eval_returns: mean returns of the last evaluations, at most
      `base.RETURNS_KEPT`, in their order.
    best_eval_return: highest mean return of a repeated evaluation, or None
      without an evaluation.
    evaluations_without_improvement: evaluations since `best_eval_return` last
      rose.
    resumes: number of resumes of the run.
    nodes: counters of each node, by role and index.
    shard_sizes: items in each shard, by index; empty if one server has all
      items.
  """

  mode: str
  environment_steps: Count
  episodes: Count
  trainer_steps: Count
  variables_version: Count
  replay_size: Count
  wall_s: Seconds
  evaluations: Count
  eval_returns: list[float]
  best_eval_return: float | None
  evaluations_without_improvement: Count
  resumes: Count
  nodes: dict[str, dict[int, NodeCounters]]
  shard_sizes: dict[int, Count] = {}

  def to_json(self) -> str:
    """Returns the counters as a JSON text, which `from_json` parses."""
    return records.to_json(self)

  @classmethod
  def from_json(cls, text: str) -> "RunCounters":
    """Parses counters from a JSON text.

    Args:
      text: a text from `to_json`.

    Raises:
      ValueError: the text has another format.
    """
    return records.from_json(text, cls)

  def write(self, folder: pathlib.Path) -> None:
    """Writes the counters to the file run.json in a snapshot's folder."""
    (folder / FILE).write_text(self.to_json(), encoding="utf-8")

  @classmethod
  def read(cls, folder: pathlib.Path) -> "RunCounters":
    """Reads the counters from the file run.json in a snapshot's folder.

    Raises:
      ValueError: the file cannot be read, or has another format.
    """
    return records.read(folder / FILE, cls, "resume from another snapshot")
