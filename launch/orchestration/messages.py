"""Messages between the nodes of a run and its control node.

`control_service` has the calls in which they cross processes.
"""

import typing

import msgspec

from slipway.launch.runs import run_status
from slipway.launch.runs.run_status import TableCounts

# What a report may hold; all else is rejected where a message arrives.
Count = typing.Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Seconds = typing.Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Return = typing.Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """What a node should do now; the default runs without limits.

  Attributes:
    stop: whether the node should end.
    paused: whether it should make no steps.
    steps_per_s: limit on environment steps: of all of a proxy's workers
      together, of a worker its own; 0: none.
    trainer_steps_limit: limit of the trainer's steps, 0: none; None: the
      config's.
    saves_requested: snapshots that were requested so far, besides the regular
      ones.
    collected_version: newest version of the variables with which every worker
      has collected its share of a round; 0: none.
    workers: number of workers, for a worker's share of a round; 0: the
      config's.
  """

  stop: bool = False
  paused: bool = False
  steps_per_s: float = 0.0
  trainer_steps_limit: int | None = None
  saves_requested: int = 0
  collected_version: int = 0
  workers: int = 0


class Registration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """What a node's predecessors did, for a process that starts.

  Attributes:
    restart_count: processes that were this node before.
    env_steps: environment steps of these processes.
  """

  restart_count: int = 0
  env_steps: int = 0


class Evaluation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """One evaluation of the variables.

  Attributes:
    returns: undiscounted return of each episode.
    lengths: environment steps of each episode.
    variables_version: version that was evaluated.
    key: unique per evaluation, so that one which is sent again is counted once;
      '': it is sent once.
  """

  returns: typing.Annotated[list[Return], msgspec.Meta(min_length=1)]
  lengths: typing.Annotated[list[Count], msgspec.Meta(min_length=1)]
  variables_version: Count
  key: typing.Annotated[str, msgspec.Meta(max_length=64)] = ""


class Placement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The machines that a run has now.

  Attributes:
    machines: by part of the run.
    expected: nodes of each role that the run has.
    absent: role and index of the nodes that have no machine now.
  """

  machines: dict[str, run_status.MachineStatus]
  expected: dict[str, int]
  absent: list[tuple[str, int]]


class RestoredCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of the snapshot that a node has restored, 0 without a snapshot.

  Attributes:
    env_steps: environment steps of the run; None: the node has no share in it.
    trainer_steps: updates; None: the node is no trainer.
    inserted: items of the node's table; None: the node hosts none.
  """

  env_steps: Count | None = None
  trainer_steps: Count | None = None
  inserted: Count | None = None


class SnapshotReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Snapshots that a trainer has written.

  Attributes:
    written: number of the newest; 0: there is none.
    written_at_s: unix seconds of the newest; None: there is none.
    pause_s: seconds for which the trainer paused for it.
    uploaded: number of the newest in the store; None: there is none.
    upload_failures: uploads that failed.
    unwritten: whether the last one could not be written.
  """

  written: Count = 0
  written_at_s: Seconds | None = None
  pause_s: float | None = None
  uploaded: Count | None = None
  upload_failures: Count = 0
  unwritten: bool = False


class StreamCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """A worker's streams through a proxy.

  Attributes:
    streams: open now.
    bytes_up: relayed to replay.
    bytes_down: relayed to the worker.
  """

  streams: Count = 0
  bytes_up: Count = 0
  bytes_down: Count = 0


class WorkerReport(
  msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="worker"
):
  """Counts of one worker process, from 0 at its start.

  Attributes:
    incarnation: unix seconds at which the process started; `Link` sets it.
    env_steps: environment steps.
    episodes: training episodes that have ended.
    items_written: handed to the writer.
    items_confirmed: that the server has confirmed.
    items_lost: items that were lost in flight.
    items_discarded: items in flight at the end that the table no longer took.
    reconnects: streams that were opened again.
    variables_version: on which the worker acts; 0: none.
    variable_loads: versions that were loaded.
    collected_version: version with which the worker has collected its share of
      a round, all of it confirmed; 0: none.
    training_return: mean return of the last episodes; None: none has ended.
    variables_age_s: seconds since the version was published; None: none was.
    waiting_s: seconds for which the worker has waited; None: it does not.
    waiting_for: what it waits for, such as `waits.TABLE`.
  """

  incarnation: Seconds = 0.0
  env_steps: Count = 0
  episodes: Count = 0
  items_written: Count = 0
  items_confirmed: Count = 0
  items_lost: Count = 0
  items_discarded: Count = 0
  reconnects: Count = 0
  variables_version: Count = 0
  variable_loads: Count = 0
  collected_version: Count = 0
  training_return: float | None = None
  variables_age_s: float | None = None
  waiting_s: float | None = None
  waiting_for: str | None = None


class TrainerReport(
  msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="trainer"
):
  """Counts of the trainer.

  Attributes:
    incarnation: unix seconds at which the process started; `Link` sets it.
    trainer_steps: updates of the run.
    first_step_at_s: unix seconds of the process's first update; None: none yet.
    variables_version: last published; 0: none.
    waiting_s: seconds without a batch; None: it does not wait.
    metrics: of the learner's last update, by name.
    shards_up: shards of the replay that answer; None: there is one table.
    restored: counts of the snapshot at which the process began.
    replay: counts of the table, if the trainer hosts it.
    snapshots: that were written.
  """

  incarnation: Seconds = 0.0
  trainer_steps: Count = 0
  first_step_at_s: Seconds | None = None
  variables_version: Count = 0
  waiting_s: float | None = None
  metrics: dict[str, float | None] = {}
  shards_up: Count | None = None
  restored: RestoredCounts = RestoredCounts()
  replay: TableCounts | None = None
  snapshots: SnapshotReport = SnapshotReport()


class ReplayReport(
  msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="replay"
):
  """Counts of one replay server.

  Attributes:
    incarnation: unix seconds at which the process started; `Link` sets it.
    replay: counts of its table.
    restored: counts of the snapshot at which the process began.
  """

  incarnation: Seconds = 0.0
  replay: TableCounts = TableCounts()
  restored: RestoredCounts = RestoredCounts()


class ProxyReport(
  msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="proxy"
):
  """Counts of one machine's proxy process, from 0 at its start.

  Attributes:
    incarnation: unix seconds at which the process started; `Link` sets it.
    connections: open streams.
    connections_refused: streams that were closed at their first bytes.
    bytes_up: relayed to replay.
    bytes_down: relayed to the workers.
    variables_fetched: versions that were put into shared memory.
    variables_version: that workers see; 0: none.
    variables_age_s: seconds since it was published; None: none was.
    restarts: proxies that served before at the same place.
    server: address of the replay server; None: it is not known.
    waiting_s: seconds for which the server has not answered; None: it answers.
    workers: streams of each worker that is alive, by its index.
  """

  incarnation: Seconds = 0.0
  connections: Count = 0
  connections_refused: Count = 0
  bytes_up: Count = 0
  bytes_down: Count = 0
  variables_fetched: Count = 0
  variables_version: Count = 0
  variables_age_s: float | None = None
  restarts: Count = 0
  server: str | None = None
  waiting_s: float | None = None
  workers: dict[int, StreamCounts] = {}


class EvaluatorReport(
  msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="evaluator"
):
  """What the evaluator waits for; evaluations are messages of their own.

  Attributes:
    incarnation: unix seconds at which the process started; `Link` sets it.
    unwritten: names of files that wait for space on the disk.
    waiting_s: seconds that its evaluation takes; None: it is not a long one.
    waiting_for: what ends the evaluation.
  """

  incarnation: Seconds = 0.0
  unwritten: list[str] = []
  waiting_s: float | None = None
  waiting_for: str | None = None


Report = (
  WorkerReport | TrainerReport | ReplayReport | ProxyReport | EvaluatorReport
)
