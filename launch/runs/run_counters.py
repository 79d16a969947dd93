"""RunCounters: how far a run has come, as a snapshot keeps it."""

import pathlib
import typing

import msgspec

from slipway.launch.runs import records

FILE = "run.json"  # in the folder of a snapshot

Count = typing.Annotated[int, msgspec.Meta(ge=0)]
Seconds = typing.Annotated[float, msgspec.Meta(ge=0.0)]


class NodeCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Sums of what the processes of one node have done.

  Each process counts from 0; the control node adds them up.

  Attributes:
    env_steps: environment steps of a worker.
    episodes: training episodes of a worker that have ended.
    items_written: handed to a worker's writer.
    items_confirmed: that the server has confirmed.
    items_lost: items that were lost in flight.
    items_discarded: items in flight at the end that the table no longer took.
    reconnects: streams that a worker has opened again.
    variable_loads: versions of the variables that a worker has loaded.
    bytes_up: relayed by a proxy to replay.
    bytes_down: relayed by a proxy to the workers.
    variables_fetched: versions that a proxy has put into shared memory.
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


class NodeCounters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """One node over all its processes.

  Attributes:
    counts: sums over the processes.
    restarts: how often it was started again while the run went on.
    incarnations: processes that were this node, those before a resume too.
  """

  counts: NodeCounts = NodeCounts()
  restarts: Count = 0
  incarnations: Count = 0


class Losses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Work after the snapshots that nodes have restored.

  Attributes:
    env_steps: environment steps whose items are gone.
    trainer_steps: updates that are gone.
    inserted: items that are gone.
  """

  env_steps: Count = 0
  trainer_steps: Count = 0
  inserted: Count = 0


class RunCounters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The counts from which a resumed run continues.

  ```python
  counters.write(folder)
  counters = RunCounters.read(folder)
  ```

  Attributes:
    mode: the config's.
    environment_steps: of all workers.
    episodes: training episodes of all workers.
    trainer_steps: updates of the learner.
    variables_version: last published; the next one is higher.
    replay_size: items in the table.
    wall_s: seconds that the run has taken, without the time between a stop and
      a resume.
    evaluations: rows of curves.csv.
    eval_return: mean return of the last evaluation; None: there was none.
    best_eval_return: highest mean return so far; None: there was none.
    evaluations_without_improvement: evaluations since the mean return was last
      higher than all before.
    resumes: how often the run was resumed.
    lost: work that was lost so far.
    nodes: by role and index.
  """

  mode: str
  environment_steps: Count
  episodes: Count
  trainer_steps: Count
  variables_version: Count
  replay_size: Count
  wall_s: Seconds
  evaluations: Count
  eval_return: float | None
  best_eval_return: float | None
  evaluations_without_improvement: Count
  resumes: Count
  lost: Losses
  nodes: dict[str, dict[int, NodeCounters]]

  def to_json(self) -> str:
    """Returns JSON, from which `from_json` makes an equal value."""
    return records.to_json(self)

  @classmethod
  def from_json(cls, text: str) -> "RunCounters":
    """Returns the counters of a JSON text.

    Raises:
      ValueError: the text holds something else.
    """
    return records.from_json(text, cls)

  def write(self, folder: pathlib.Path) -> None:
    """Writes the file of a snapshot."""
    (folder / FILE).write_text(self.to_json(), encoding="utf-8")

  @classmethod
  def read(cls, folder: pathlib.Path) -> "RunCounters":
    """Reads the file of a snapshot.

    Raises:
      ValueError: one line that names the file: it cannot be read, or holds
        something else.
    """
    return records.read(folder / FILE, cls, "resume from another snapshot")
