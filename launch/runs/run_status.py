"""RunStatus: the counts, rates and waits of a run at one moment.

The control makes a status for the panel, the status command, the results
and the watchdog. Each field has a default, for a run that has just begun.
"""

import math
import statistics
from collections.abc import Sequence

import msgspec

from slipway.replay.tables import table_status


class ReplayStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of the run's table, or sums over all of its shards.

  Attributes:
    size: items in the table.
    capacity: items that the table can hold.
    inserted: number of inserts since the table was made.
    sampled: number of samples since the table was made.
    samples_per_insert: measured ratio of samples to inserts since the table
      reached its minimum size.
    samples_per_insert_target: target of `samples_per_insert`, or 0 if there is
      none.
    is_queue: whether the table is a queue, whose items are sampled once.
    shards: counts of each shard, by its index; empty without shards.
  """

  size: int = 0
  capacity: int = 0
  inserted: int = 0
  sampled: int = 0
  samples_per_insert: float = 0.0
  samples_per_insert_target: float = 0.0
  is_queue: bool = False
  shards: dict[int, table_status.TableStatus] = {}


class ItemsStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of the items that workers and external processes have written.

  Attributes:
    written: items passed to the writers.
    confirmed: items that the server has confirmed.
    lost: items lost with a broken stream or a dead process.
    discarded: items in flight when a worker stopped, which the table no longer
      accepted.
  """

  written: int = 0
  confirmed: int = 0
  lost: int = 0
  discarded: int = 0


class RatesStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Rates of the run, averaged over the last 5 s.

  Attributes:
    env_steps_per_s: environment steps per second of all workers.
    env_steps_per_s_target: limit on the environment steps per second of all
      workers together, or 0 if there is none.
    trainer_steps_per_s: updates of the learner per second.
    items_per_s: items that the server has confirmed, per second.
    episodes_per_s: training episodes of all workers per second.
  """

  env_steps_per_s: float = 0.0
  env_steps_per_s_target: float = 0.0
  trainer_steps_per_s: float = 0.0
  items_per_s: float = 0.0
  episodes_per_s: float = 0.0


class VariablesStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Version and age of the variables, and how often workers load them.

  Attributes:
    version: version that was published last, or 0 if there is none.
    mean_age_s: seconds since the variables of a worker were published, as a
      mean over the workers; None if it is unknown.
    loads_per_trainer_step: mean number of loads per worker and trainer step,
      or None if the trainer makes no steps.
    loads_per_trainer_step_target: number of publications per trainer step, each
      of which every worker should load; None if it is unknown.
  """

  version: int = 0
  mean_age_s: float | None = None
  loads_per_trainer_step: float | None = None
  loads_per_trainer_step_target: float | None = None


# Number of evaluations whose mean is `EvaluationStatus.recent_mean_return`.
RECENT_EVALUATIONS = 10


def recent_mean_return(returns: Sequence[float]) -> float:
  """Returns the mean of the last `RECENT_EVALUATIONS` mean returns.

  Args:
    returns: mean returns of at least one evaluation, in their order.
  """
  return statistics.fmean(returns[-RECENT_EVALUATIONS:])


class EvaluationStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts and mean returns of the run's evaluations.

  Attributes:
    count: number of evaluations, including those before a resume.
    mean_return: mean return of the last evaluation, or None if there was none.
    episodes: number of episodes of the last evaluation, or 0 if the run was
      resumed after it.
    recent_mean_return: mean of the last `RECENT_EVALUATIONS` mean returns, or
      of all if there are fewer; None if there are none.
    best_mean_return: highest mean return of a repeated evaluation, or None
      without an evaluation. An evaluation that is at least as good as the best
      is repeated with other episodes, whose mean decides.
    without_improvement: number of evaluations since `best_mean_return` last
      rose.
    at_target: number of consecutive evaluations, up to the last one, that have
      reached `limits.target_return`.
    info: mean of each number that `evaluation.info` names, by name, of the last
      evaluation.
  """

  count: int = 0
  mean_return: float | None = None
  episodes: int = 0
  recent_mean_return: float | None = None
  best_mean_return: float | None = None
  without_improvement: int = 0
  at_target: int = 0
  info: dict[str, float] = {}


class SnapshotsStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The state of the run's snapshots and of their uploads.

  Attributes:
    written: number of the newest snapshot, or 0 if there is none.
    age_s: seconds since the newest snapshot was written, or None if there is
      none.
    pause_s: seconds for which the trainer paused for the newest snapshot, or
      None if it is unknown.
    uploaded: number of the newest uploaded snapshot, or None if there is none.
    upload_failures: number of failed uploads.
    finishing: whether the run's last snapshot is being written or uploaded.
    late: whether the run's last snapshot was abandoned, since it took too long.
  """

  written: int = 0
  age_s: float | None = None
  pause_s: float | None = None
  uploaded: int | None = None
  upload_failures: int = 0
  finishing: bool = False
  late: bool = False


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The config's limits, which end the run; 0 or inf stands for no limit.

  Attributes:
    environment_steps: environment steps of all workers.
    trainer_steps: updates of the learner.
    episodes: training episodes of all workers.
    wall_clock_s: duration of the run in seconds.
    target_return: mean return of an evaluation.
    target_evaluations: number of consecutive evaluations that must reach
      `target_return`.
    evaluations_without_improvement: evaluations in a row without a new highest
      mean return.
    combine: 'any' if the first limit that is reached ends the run, or 'all' if
      the run continues until all limits are reached.
  """

  environment_steps: int = 0
  trainer_steps: int = 0
  episodes: int = 0
  wall_clock_s: float = 0.0
  target_return: float = math.inf
  target_evaluations: int = 1
  evaluations_without_improvement: int = 0
  combine: str = "any"


class NodesStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of the nodes of one role.

  Attributes:
    up: number of nodes that have sent a report and have not ended.
    expected: number of nodes that the run should have.
  """

  up: int = 0
  expected: int = 0


class ProxyStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of the proxies, summed over all of them.

  Attributes:
    connections: open streams to the replay server.
    connections_refused: streams that were rejected.
    bytes_up: bytes relayed to the replay server.
    bytes_down: bytes relayed to the workers.
    bytes_up_per_s: bytes per second relayed to the replay server.
    variables_fetched: versions of the variables that were put into shared
      memory.
    restarts: restarts of proxies.
    variables_version: oldest version of the variables in any proxy's shared
      memory, or None if no proxy has reported.
    variables_age_s: seconds since the oldest of these versions was published,
      or None if no proxy has reported a version.
  """

  connections: int = 0
  connections_refused: int = 0
  bytes_up: int = 0
  bytes_down: int = 0
  bytes_up_per_s: float = 0.0
  variables_fetched: int = 0
  restarts: int = 0
  variables_version: int | None = None
  variables_age_s: float | None = None


class WorkerStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of one worker, and of its streams through its proxy.

  A count is None if the worker, or its proxy, has not reported it.

  Attributes:
    items_confirmed: items that the server has confirmed.
    items_lost: items in flight when their stream broke or the worker died.
    reconnects: streams that were reopened.
    streams: open streams through the proxy.
    bytes_up: bytes relayed to the replay server.
    bytes_down: bytes relayed to the worker.
  """

  items_confirmed: int | None = None
  items_lost: int | None = None
  reconnects: int | None = None
  streams: int | None = None
  bytes_up: int | None = None
  bytes_down: int | None = None


class MachineStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The state of one node group's machine.

  Attributes:
    host: address of the machine.
    up: whether the node group is running there.
    connections_refused: connections that the gateway has refused; see
      `Gateway.stats`.
  """

  host: str
  up: bool
  connections_refused: int = 0


class Milestone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The run's duration and steps at one moment, such as the first update.

  Attributes:
    wall_s: duration of the run in seconds.
    env_steps: environment steps of all workers.
    trainer_steps: updates of the learner.
  """

  wall_s: float = 0.0
  env_steps: int = 0
  trainer_steps: int = 0


class RunStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The status of a run at one moment.

  Attributes:
    name: the run's name.
    mode: the config's mode.
    phase: 'starting', 'running', 'paused', 'stopping' or 'stopped'.
    stopped_because: the limit, signal or fault that ended the run, or None if
      it has not been stopped.
    waiting: sentence about the nodes that wait and the reason, or None if no
      node waits.
    stalled_s: seconds without progress, or None if the run is not stalled.
    resumes: number of resumes of the run.
    wall_s: duration of the run in seconds, without the time between a stop and
      a resume.
    start_up_s: seconds from the user's command to its first update, or None
      before that update.
    learning_since: counts at the first update, or None before it.
    env_steps: environment steps of all workers, including dead ones.
    episodes: training episodes of all workers.
    trainer_steps: updates of the learner.
    training_return: mean return of the workers' last episodes, or None before
      the first episode's end.
    items: counts of the items that workers have written.
    replay: counts of the table, or None if the run has no table.
    rates: rates over the last seconds.
    variables: version and age of the variables.
    evaluation: counts and mean returns of the evaluations.
    snapshots: state of the snapshots.
    limits: limits that end the run.
    nodes: counts of the nodes, by role.
    workers_target: target number of workers.
    restarts: restarts of all nodes.
    node_restarts: restarts of each restarted node, by name ('worker/0').
    reconnects: streams that workers have reopened.
    metrics: metrics of the learner's last update, by name.
    advice: sentences about configs whose values can't be learned well.
    proxy: sums over all proxies, or None if the run has no proxy.
    workers: counts of each worker, by index.
    externals: counts of each external process, by index, disconnected ones
      included.
    machines: state of each node group's machine, by the group's name; empty if
      there is only one machine.
    unwritten: names of the files that a full disk has rejected; 'snapshot'
      stands for a snapshot.
    failed_hooks: error of each hook that has failed, by the hook's name.
  """

  name: str = "run"
  mode: str = "async"
  phase: str = "starting"
  stopped_because: str | None = None
  waiting: str | None = None
  stalled_s: float | None = None
  resumes: int = 0
  wall_s: float = 0.0
  start_up_s: float | None = None
  learning_since: Milestone | None = None
  env_steps: int = 0
  episodes: int = 0
  trainer_steps: int = 0
  training_return: float | None = None
  items: ItemsStatus = ItemsStatus()
  replay: ReplayStatus | None = None
  rates: RatesStatus = RatesStatus()
  variables: VariablesStatus = VariablesStatus()
  evaluation: EvaluationStatus = EvaluationStatus()
  snapshots: SnapshotsStatus = SnapshotsStatus()
  limits: Limits = Limits()
  nodes: dict[str, NodesStatus] = {}
  workers_target: int = 0
  restarts: int = 0
  node_restarts: dict[str, int] = {}
  reconnects: int = 0
  metrics: dict[str, float | None] = {}
  advice: list[str] = []
  proxy: ProxyStatus | None = None
  workers: dict[int, WorkerStatus] = {}
  externals: dict[int, WorkerStatus] = {}
  machines: dict[str, MachineStatus] = {}
  unwritten: list[str] = []
  failed_hooks: dict[str, str] = {}
