"""Messages: commands and reports between the nodes and the control.

`control_service.ControlService` declares the RPC methods that send them.
"""

import typing

import msgspec

from slipway.launch.control import stages, waits
from slipway.launch.runs import run_counters, run_status
from slipway.replay.tables import table_status

REPORT_PERIOD_S = 0.25  # seconds between two reports of a node
# The role of external processes, which the run's commands stop. No node waits
# for them, because their own loops may notice the stop late.
EXTERNAL = "external"

# Types of fields with a range. The receiver rejects a message with a value
# outside of the range.
# A count of steps, items, bytes or versions, which a float64 holds exactly.
Count = typing.Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# Unix seconds.
Seconds = typing.Annotated[float, msgspec.Meta(ge=0, le=1e12)]
# The undiscounted return of an episode.
Return = typing.Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """A command of the control to another node, in reply to its report.

  The default command is to run without limits.

  Attributes:
    stop: whether an external process should stop; the runner ends nodes.
    paused: whether the node should pause.
    steps_per_s: limit on the environment steps per second of a worker, or of
      all workers of a proxy together; 0 means no limit.
    trainer_steps_limit: trainer step at which the trainer stops; 0 means no
      limit, and None the config's limit.
    saves_requested: number of snapshots that users have requested so far;
      periodic snapshots do not count.
    collected_version: newest version of the variables with which every worker
      has collected its share of a round; 0 if there is none.
    workers: number of workers that share a round; 0 means the config's number.
    last_snapshot_s: seconds that the trainer may take to write and upload the
      run's last snapshot.
  """

  stop: bool = False
  paused: bool = False
  steps_per_s: float = 0.0
  trainer_steps_limit: int | None = None
  saves_requested: int = 0
  collected_version: int = 0
  workers: int = 0
  last_snapshot_s: float = stages.last_snapshot_s(is_quick=True)


class Registration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of a node's earlier processes, which a new process receives.

  Attributes:
    restart_count: number of earlier processes of the node.
    env_steps: environment steps of the earlier processes. Without one, the mean
      of the other nodes of the role.
  """

  restart_count: int = 0
  env_steps: int = 0


class Evaluation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The results of one evaluation.

  Attributes:
    returns: undiscounted return of each episode.
    lengths: environment steps of each episode.
    variables_version: version of the variables that was evaluated.
    repeated: returns of a second evaluation of the same variables, with other
      episodes, or empty if there was none. An evaluator repeats an evaluation
      whose mean return is at least the best one.
    key: unique id of the evaluation, so that a retried call counts it only
      once; each call without an id counts.
    info: mean of each number that `evaluation.info` names, by name.
  """

  returns: typing.Annotated[list[Return], msgspec.Meta(min_length=1)]
  lengths: typing.Annotated[list[Count], msgspec.Meta(min_length=1)]
  variables_version: Count
  repeated: list[Return] = []
  key: typing.Annotated[str, msgspec.Meta(max_length=64)] = ""
  info: dict[str, Return] = {}


class EvaluationReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The control's reply to an evaluation.

  Attributes:
    is_best: whether the evaluated variables are the best ones so far.
    best_return: highest mean return of a repeated evaluation so far, or None if
      there was none.
  """

  is_best: bool = False
  best_return: float | None = None


class Placement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The machines on which a run's node groups are currently placed.

  Attributes:
    machines: state of each node group's machine, by the group's name.
    expected: number of nodes that the run should have, by role.
    absent: role and index of each node that currently has no machine.
  """

  machines: dict[str, run_status.MachineStatus]
  expected: dict[str, int]
  absent: list[tuple[str, int]]


class SnapshotReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The state of a trainer's snapshots.

  Attributes:
    written: number of the newest snapshot, or 0 if there is none.
    written_at_s: unix seconds of the newest snapshot, or None if there is none.
    pause_s: seconds for which the trainer paused for the newest snapshot, or
      None if there is none.
    uploaded: number of the newest uploaded snapshot, or None if there is none.
    upload_failures: number of failed uploads.
    unwritten: whether the last attempt to write a snapshot failed.
    finishing_s: seconds for which the run's last snapshot has been written or
      uploaded so far, or None if the trainer does not do that now.
    late: whether the run's last snapshot was abandoned, since it took too long.
  """

  written: Count = 0
  written_at_s: Seconds | None = None
  pause_s: float | None = None
  uploaded: Count | None = None
  upload_failures: Count = 0
  unwritten: bool = False
  finishing_s: float | None = None
  late: bool = False


class StreamCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of the streams of one worker, as its proxy reports them.

  Attributes:
    streams: number of open streams.
    bytes_up: bytes relayed to the replay server.
    bytes_down: bytes relayed to the worker.
  """

  streams: Count = 0
  bytes_up: Count = 0
  bytes_down: Count = 0


class NodeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The fields and properties of every node's report.

  Attributes:
    incarnation: unix seconds at which the process began to report, which
      identify it among the node's processes; `Link` sets the field.
  """

  incarnation: Seconds = 0.0

  @property
  def counts(self) -> run_counters.NodeCounts:
    """Counts since the process started, to be summed over all processes."""
    return run_counters.NodeCounts()

  @property
  def wait(self) -> waits.Wait | None:
    """The node's current wait, or None if it does not wait."""
    return None


class WorkerReport(NodeReport, frozen=True, tag="worker"):
  """The report of a worker process, with counts since the process started.

  Attributes:
    env_steps: environment steps.
    episodes: training episodes that have ended.
    items_written: number of items passed to the writer.
    items_confirmed: number of items that the server has confirmed.
    items_lost: number of items in flight when their stream broke.
    items_discarded: number of items that were in flight when the worker
      stopped, and that the table no longer accepted.
    reconnects: number of streams that were reopened.
    variables_version: version of the variables with which the worker acts; 0
      before the first one.
    variable_loads: number of versions of the variables that the worker has
      loaded.
    collected_version: newest version with which the worker has collected its
      share of a round, after all items were confirmed; 0 if there is none.
    training_return: mean return of the last episodes, or None if none has
      ended.
    variables_age_s: seconds since `variables_version` was published, or None
      before the first version.
    waiting_s: seconds since the worker's current wait began, or None if it does
      not wait.
    waiting_for: reason of the current wait, such as `waits.TABLE`, or None.
  """

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

  @property
  def counts(self) -> run_counters.NodeCounts:
    """Counts since the process started; see `NodeReport.counts`."""
    return run_counters.NodeCounts(
      env_steps=self.env_steps,
      episodes=self.episodes,
      items_written=self.items_written,
      items_confirmed=self.items_confirmed,
      items_lost=self.items_lost,
      items_discarded=self.items_discarded,
      reconnects=self.reconnects,
      variable_loads=self.variable_loads,
    )

  @property
  def wait(self) -> waits.Wait | None:
    """The current wait, for the reason `waiting_for`."""
    return waits.make_wait(self.waiting_for, self.waiting_s)


class TrainerReport(NodeReport, frozen=True, tag="trainer"):
  """The report of a trainer process.

  Attributes:
    trainer_steps: trainer steps of the whole run.
    first_step_at_s: unix seconds of the process's first update, or None before
      it.
    variables_version: version of the variables that was published last; 0
      before the first one.
    waiting_s: seconds since the trainer began to wait for a batch, or None if
      it does not wait.
    metrics: metrics of the learner's last update, by name.
    replay: counts of the table, or None if the trainer does not host it.
    snapshots: state of the trainer's snapshots.
  """

  trainer_steps: Count = 0
  first_step_at_s: Seconds | None = None
  variables_version: Count = 0
  waiting_s: float | None = None
  metrics: dict[str, float | None] = {}
  replay: table_status.TableStatus | None = None
  snapshots: SnapshotReport = SnapshotReport()

  @property
  def wait(self) -> waits.Wait | None:
    """The current wait, for the last snapshot or for a batch."""
    if self.snapshots.finishing_s is not None:
      return waits.Wait(waits.LAST_SNAPSHOT, self.snapshots.finishing_s)
    return waits.make_wait(waits.TRANSITIONS, self.waiting_s)


class ReplayReport(NodeReport, frozen=True, tag="replay"):
  """The report of a replay server's process.

  Attributes:
    replay: counts of the server's table.
  """

  replay: table_status.TableStatus = table_status.TableStatus()


class ProxyReport(NodeReport, frozen=True, tag="proxy"):
  """The report of a proxy process, with counts since the process started.

  Attributes:
    connections: number of open streams.
    connections_refused: number of streams that were rejected.
    bytes_up: bytes relayed to the replay server.
    bytes_down: bytes relayed to the workers.
    variables_fetched: number of versions of the variables that the proxy has
      put into shared memory.
    variables_version: version in shared memory; 0 before the first one.
    variables_age_s: seconds since `variables_version` was published, or None
      before the first version.
    restarts: number of earlier processes of this proxy.
    server: address of the replay server, or None if it is not known yet.
    waiting_s: seconds since the replay server last replied, or None if it
      replies.
    workers: counts of the streams of each live worker, by the worker's index.
    live_workers: number of live workers and external processes of the machine.
  """

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
  live_workers: Count = 0

  @property
  def counts(self) -> run_counters.NodeCounts:
    """Counts since the process started; see `NodeReport.counts`."""
    return run_counters.NodeCounts(
      bytes_up=self.bytes_up,
      bytes_down=self.bytes_down,
      variables_fetched=self.variables_fetched,
    )

  @property
  def wait(self) -> waits.Wait | None:
    """The current wait for the replay server, if it is down."""
    return waits.make_wait(
      waits.make_server_reason(self.server), self.waiting_s
    )


class EvaluatorReport(NodeReport, frozen=True, tag="evaluator"):
  """The report of an evaluator process; results are sent as `Evaluation`.

  Attributes:
    unwritten: names of the files that a full disk has rejected.
    waiting_s: seconds since the current evaluation began, or None if no
      evaluation runs or it has only just begun.
    waiting_for: reason of the current wait, such as `waits.EPISODES`, or None.
  """

  unwritten: list[str] = []
  waiting_s: float | None = None
  waiting_for: str | None = None

  @property
  def wait(self) -> waits.Wait | None:
    """The current wait, for the reason `waiting_for`."""
    return waits.make_wait(self.waiting_for, self.waiting_s)


# The report of any node; msgspec stores its type as a tag.
Report = (
  WorkerReport | TrainerReport | ReplayReport | ProxyReport | EvaluatorReport
)
