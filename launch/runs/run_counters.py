"""RunCounters: a run's counts, which each snapshot contains as run.json."""

import pathlib
import typing

import msgspec

from slipway.launch.runs import records, run_status

FILE = "run.json"  # name of the file with the counters in a snapshot's folder

# Types of fields that must not be negative; a reader rejects other values.
Count = typing.Annotated[int, msgspec.Meta(ge=0)]
Seconds = typing.Annotated[float, msgspec.Meta(ge=0.0)]


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

  earlier: run_status.NodeCounts = run_status.NodeCounts()
  newest: run_status.NodeCounts = run_status.NodeCounts()
  process: Seconds = 0.0
  restarts: Count = 0
  incarnations: Count = 0

  @property
  def counts(self) -> run_status.NodeCounts:
    """Sums over all processes of the node."""
    return run_status.NodeCounts.from_sum([self.earlier, self.newest])


class RunCounters(
  msgspec.Struct, frozen=True, tag_field="format_version", tag=2
):
  """The counts from which a resumed run continues.

  ```python
  counters.write(folder)
  counters = RunCounters.read(folder)
  ```

  Files of another format version are rejected.

  Attributes:
    status: the run's status at the snapshot.
    eval_returns: mean returns of the last evaluations, at most
      `base.RETURNS_KEPT`, in their order.
    nodes: counters of each node, by role and index.
    eval_infos: mean numbers of the infos of the same evaluations, by name.
  """

  status: run_status.RunStatus
  eval_returns: list[float]
  nodes: dict[str, dict[int, NodeCounters]]
  eval_infos: list[dict[str, float]] = []

  def write(self, folder: pathlib.Path) -> None:
    """Writes the counters to the file run.json in a snapshot's folder."""
    (folder / FILE).write_bytes(records.to_json(self))

  @classmethod
  def read(cls, folder: pathlib.Path) -> "RunCounters":
    """Reads the counters from the file run.json in a snapshot's folder.

    Raises:
      ValueError: the file cannot be read, or has another format.
    """
    path, advice = folder / FILE, ": resume from another snapshot"
    try:
      return records.read(path, cls, advice)
    except FileNotFoundError as error:
      raise ValueError(f"{str(path)!r} does not exist{advice}") from error
