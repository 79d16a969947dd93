"""Messages: commands and reports between the nodes and the control.

`control_service.ControlService` declares the RPC methods that send them.
"""

import typing

import msgspec

from slipway.launch.control import sampling, stages, waits
from slipway.launch.runs import run_status
from slipway.replay.tables import table_status

REPORT_PERIOD_S = 0.25  # seconds between two reports of a node
# The role of external processes, which the run's commands stop. No node waits
# for them, because their own loops may notice the stop late.
EXTERNAL = "external"

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
    samples_per_s: samples that the node's process takes of its stacks per
      second; 0 ends the profile.
  """

  stop: bool = False
  paused: bool = False
  steps_per_s: float = 0.0
  trainer_steps_limit: int | None = None
  saves_requested: int = 0
  collected_version: int = 0
  workers: int = 0
  last_snapshot_s: float = stages.last_snapshot_s(is_quick=True)
  samples_per_s: float = 0.0


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
    info: mean of each number that `evaluation.info` names, by name.
  """

  returns: typing.Annotated[list[Return], msgspec.Meta(min_length=1)]
  lengths: typing.Annotated[list[run_status.Count], msgspec.Meta(min_length=1)]
  variables_version: run_status.Count
  repeated: list[Return] = []
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


class StreamCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of the streams of one worker, as its proxy reports them.

  Attributes:
    streams: number of open streams.
    bytes_up: bytes relayed to the replay server.
    bytes_down: bytes relayed to the worker.
  """

  streams: run_status.Count = 0
  bytes_up: run_status.Count = 0
  bytes_down: run_status.Count = 0


class NodeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The fields of every node's report.

  Attributes:
    incarnation: unix seconds at which the process began to report, which
      identify it among the node's processes; `Link` sets the field.
    counts: counts since the process started.
    wait: the node's current wait, or None if it does not wait.
    profile: profile of the process, in the first report after it has ended.
  """

  incarnation: run_status.UnixSeconds = 0.0
  counts: run_status.NodeCounts = run_status.NodeCounts()
  wait: waits.Wait | None = None
  profile: sampling.Profile | None = None


class WorkerReport(NodeReport, frozen=True, tag="worker", kw_only=True):
  """The report of a worker process.

  Attributes:
    variables_version: version of the variables with which the worker acts; 0
      before the first one.
    collected_version: newest version with which the worker has collected its
      share of a round, after all items were confirmed; 0 if there is none.
    training_return: mean return of the last episodes, or None if none has
      ended.
    variables_age_s: seconds since `variables_version` was published, or None
      before the first version.
    unwritten: ['episodes'] while a full disk rejects recorded episodes.
  """

  variables_version: run_status.Count = 0
  collected_version: run_status.Count = 0
  training_return: float | None = None
  variables_age_s: float | None = None
  unwritten: list[str] = []


class TrainerReport(NodeReport, frozen=True, tag="trainer", kw_only=True):
  """The report of a trainer process.

  Attributes:
    trainer_steps: trainer steps of the whole run.
    first_step_at_s: unix seconds of the process's first update, or None before
      it.
    variables_version: version of the variables that was published last; 0
      before the first one.
    metrics: metrics of the learner's last update, by name.
    replay: counts of the table, or None if the trainer does not host it.
    snapshots: state of the run's snapshots.
  """

  trainer_steps: run_status.Count = 0
  first_step_at_s: run_status.UnixSeconds | None = None
  variables_version: run_status.Count = 0
  metrics: dict[str, float | None] = {}
  replay: table_status.TableStatus | None = None
  snapshots: run_status.SnapshotsStatus = run_status.SnapshotsStatus()


class ReplayReport(NodeReport, frozen=True, tag="replay", kw_only=True):
  """The report of a replay server's process, with the counts of its table."""

  replay: table_status.TableStatus = table_status.TableStatus()


class ProxyReport(NodeReport, frozen=True, tag="proxy", kw_only=True):
  """The report of a proxy process.

  Attributes:
    connections: number of open streams.
    variables_version: version that the proxy has put into shared memory; 0
      before the first one. None: the trainer does that on its machine.
    variables_age_s: seconds since `variables_version` was published, or None
      before the first version.
    workers: counts of the streams of each live worker, by the worker's index.
    live_workers: number of live workers and external processes of the machine.
  """

  connections: run_status.Count = 0
  variables_version: run_status.Count | None = None
  variables_age_s: float | None = None
  workers: dict[int, StreamCounts] = {}
  live_workers: run_status.Count = 0


class EvaluatorReport(NodeReport, frozen=True, tag="evaluator", kw_only=True):
  """The report of an evaluator process; results are sent as `Evaluation`.

  Attributes:
    unwritten: names of the files that a full disk has rejected.
  """

  unwritten: list[str] = []


# The report of any node; msgspec stores its type as a tag.
Report = (
  WorkerReport | TrainerReport | ReplayReport | ProxyReport | EvaluatorReport
)
