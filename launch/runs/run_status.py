"""RunStatus: the counts, rates and waits of a run at one moment.

Each count is declared once, here. The control makes a status for the panel, the
status command, the hooks and the watchdog; a snapshot contains it, and the last
one is the run's summary.json. Each field has a default, for a run that has just
begun.
"""

import math
import numbers
import statistics
import typing
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from slipway.launch.runs import machine_usage, records, run_folder
from slipway.replay.tables import table_status

# Types of fields with a range; a message or file with another value is
# rejected. A count of steps, items, bytes or versions, which a float64 holds.
Count = typing.Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# Unix seconds.
UnixSeconds = typing.Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class NodeCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of one process of a node, or sums over processes and nodes.

  Counts that the node's role does not have are 0.

  Attributes:
    env_steps: environment steps of workers and external processes.
    episodes: training episodes that have ended.
    truncations: training episodes that a limit has ended.
    items_written: items passed to the workers' writers.
    items_confirmed: items that the server has confirmed.
    items_lost: items in flight when their stream broke or the worker died.
    items_discarded: items in flight when a worker stopped, which the table no
      longer accepted.
    reconnects: streams that workers have reopened.
    variable_loads: versions of the variables that workers have loaded.
    bytes_up: bytes that proxies have relayed to the replay servers.
    bytes_down: bytes that proxies have relayed to the workers.
    variables_fetched: versions of the variables that proxies have put into
      shared memory.
    connections_refused: streams that proxies have rejected.
  """

  env_steps: Count = 0
  episodes: Count = 0
  truncations: Count = 0
  items_written: Count = 0
  items_confirmed: Count = 0
  items_lost: int = 0
  items_discarded: Count = 0
  reconnects: Count = 0
  variable_loads: Count = 0
  bytes_up: Count = 0
  bytes_down: Count = 0
  variables_fetched: Count = 0
  connections_refused: Count = 0

  @classmethod
  def from_sum(cls, all_counts: Iterable["NodeCounts"]) -> "NodeCounts":
    """Returns the sums of the counts of several nodes or processes."""
    rows = [msgspec.structs.astuple(counts) for counts in all_counts]
    return cls(*map(sum, zip(*rows, strict=True)))


class ReplayStatus(table_status.TableStatus, frozen=True):
  """Counts of the run's table, or sums over all of its shards.

  Attributes:
    capacity: items that the table can hold.
    samples_per_insert_target: target of `samples_per_insert`, or 0 if there is
      none.
    is_queue: whether the table is a queue, whose items are sampled once.
    shards: counts of each shard, by its index; empty without shards.
  """

  capacity: int = 0
  samples_per_insert_target: float = 0.0
  is_queue: bool = False
  shards: dict[int, table_status.TableStatus] = msgspec.field(
    default_factory=dict
  )


class RatesStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Rates of the run, over the last 5 s or since its first update.

  Attributes:
    env_steps_per_s: environment steps per second of all workers.
    env_steps_per_s_target: limit on the environment steps per second of all
      workers together, or 0 if there is none.
    trainer_steps_per_s: updates of the learner per second.
    items_per_s: items that the server has confirmed, per second.
    episodes_per_s: training episodes of all workers per second.
    bytes_up_per_s: bytes per second that proxies relay to the replay servers.
    mean_env_steps_per_s: environment steps per second since the run's first
      update, or the first one after a resume, so that steps that only fill the
      replay do not count. None before it, as for the next two.
    mean_trainer_steps_per_s: updates per second since then.
    trainer_steps_per_env_step: updates per environment step since then, the
      replay ratio.
  """

  env_steps_per_s: float = 0.0
  env_steps_per_s_target: float = 0.0
  trainer_steps_per_s: float = 0.0
  items_per_s: float = 0.0
  episodes_per_s: float = 0.0
  bytes_up_per_s: float = 0.0
  mean_env_steps_per_s: float | None = None
  mean_trainer_steps_per_s: float | None = None
  trainer_steps_per_env_step: float | None = None


class VariablesStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Version and age of the variables, and how often workers load them.

  Attributes:
    version: highest version that any node has, or 0 if there is none.
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
# Number of evaluations in `EvaluationStatus.last_returns`.
LAST_RETURNS = 40


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
    at_target_info: the same for `limits.target_info`.
    last_returns: mean returns of the last `LAST_RETURNS` evaluations, in their
      order.
    info: mean of each number that `evaluation.info` or `limits.target_info`
      names, by name, of the last evaluation.
  """

  count: int = 0
  mean_return: float | None = None
  episodes: int = 0
  recent_mean_return: float | None = None
  best_mean_return: float | None = None
  without_improvement: int = 0
  at_target: int = 0
  at_target_info: int = 0
  last_returns: list[float] = []
  info: dict[str, float] = {}


class SnapshotsStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The state of the run's snapshots and of their uploads.

  Attributes:
    written: number of the newest snapshot, or 0 if there is none.
    written_at_s: unix seconds of the newest snapshot, or None if there is none.
    age_s: seconds from then to the status, or None if there is none.
    pause_s: seconds for which the trainer paused for the newest snapshot, or
      None if it is unknown.
    uploaded: number of the newest uploaded snapshot, or None if there is none.
    upload_failures: number of failed uploads.
    unwritten: whether the last attempt to write a snapshot failed.
    finishing_s: seconds for which the run's last snapshot has been written or
      uploaded so far, or None if that is not done now.
    late: whether the run's last snapshot was abandoned, since it took too long.
  """

  written: Count = 0
  written_at_s: UnixSeconds | None = None
  age_s: float | None = None
  pause_s: float | None = None
  uploaded: Count | None = None
  upload_failures: Count = 0
  unwritten: bool = False
  finishing_s: float | None = None
  late: bool = False


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The config's limits, which end the run; 0 or None stands for no limit.

  Attributes:
    environment_steps: environment steps of all workers.
    trainer_steps: updates of the learner.
    episodes: training episodes of all workers.
    wall_clock_s: duration of the run in seconds.
    target_return: mean return of an evaluation.
    target_info: 'NAME:VALUE', the mean of a number in infos; '' is no limit.
    target_evaluations: number of consecutive evaluations that must reach
      `target_return` or `target_info`.
    evaluations_without_improvement: evaluations in a row without a new highest
      mean return.
    combine: 'any' if the first limit that is reached ends the run, or 'all' if
      the run continues until all limits are reached.
  """

  environment_steps: int = 0
  trainer_steps: int = 0
  episodes: int = 0
  wall_clock_s: float = 0.0
  target_return: float | None = None
  target_info: str = ""
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
  """The state of all proxies together.

  Attributes:
    connections: open streams to the replay server.
    variables_version: oldest version of the variables that a proxy has put into
      shared memory, or None if none has: on the trainer's machine, the trainer
      does.
    variables_age_s: seconds since the oldest of these versions was published,
      or None if there is none.
  """

  connections: int = 0
  variables_version: int | None = None
  variables_age_s: float | None = None


class WorkerStatus(NodeCounts, frozen=True):
  """Counts of one worker, with the bytes of its streams through its proxy.

  Attributes:
    streams: open streams through the proxy.
  """

  streams: int = 0


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


class RunStatus(NodeCounts, frozen=True, kw_only=True):
  """The status of a run at one moment.

  The inherited counts are sums over all nodes, including those that have died,
  also before a resume.

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
    trainer_steps: updates of the learner.
    training_return: mean return of the workers' last episodes, or None before
      the first episode's end.
    replay: counts of the table, or None if the run has no table.
    rates: rates of the counts.
    variables: version and age of the variables.
    evaluation: counts and mean returns of the evaluations.
    snapshots: state of the snapshots.
    limits: limits that end the run.
    nodes: counts of the nodes, by role.
    workers_target: target number of workers.
    restarts: restarts of all nodes.
    node_restarts: restarts of each restarted node, by name ('worker/0').
    first_failures: line about the first failure after which a node of a role
      was restarted, by role.
    learner: metrics of the learner's last update, by name.
    advice: sentences about configs whose values can't be learned well.
    proxy: state of the proxies, or None if the run has no proxy.
    workers: counts of each worker, by index.
    externals: counts of each external process, by index, disconnected ones
      included.
    machines: state of each node group's machine, by the group's name; empty if
      there is only one machine.
    monitors: load of each machine, by its node group's name, and usage of the
      run's processes there; a single machine is 'home'.
    unwritten: names of the files that a full disk has rejected; 'snapshot'
      stands for a snapshot, and 'episodes' for recorded ones.
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
  trainer_steps: Count = 0
  training_return: float | None = None
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
  first_failures: dict[str, str] = {}
  learner: dict[str, float | None] = {}
  advice: list[str] = []
  proxy: ProxyStatus | None = None
  workers: dict[int, WorkerStatus] = {}
  externals: dict[int, WorkerStatus] = {}
  machines: dict[str, MachineStatus] = {}
  monitors: dict[str, machine_usage.MachineUsage] = {}
  unwritten: list[str] = []
  failed_hooks: dict[str, str] = {}

  @property
  def ended_before_first_update(self) -> bool:
    """Whether the time limit ended the run before it had learned anything."""
    return self.stopped_because == "wall_clock_s" and not self.trainer_steps

  def to_numbers(self) -> dict[str, float]:
    """Returns all finite numbers of the status, by their paths.

    The paths are the names of TensorBoard's metrics, such as
    'evaluation/mean_return'; 'run/env_steps' stands for a field of the status
    itself. Limits, points in time, and zeros of single nodes are left out.
    """
    return {
      path: float(value)
      for path, value in _find_numbers("run", msgspec.structs.asdict(self))
      if not path.startswith("limits/")
    }


def _find_numbers(
  path: str, values: typing.Mapping[typing.Any, typing.Any]
) -> Iterator[tuple[str, float]]:
  """Yields the path and the value of each number in a tree of structures."""
  for name, value in values.items():
    if isinstance(value, msgspec.Struct):
      value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
      group = str(name) if path == "run" else f"{path}/{name}"
      yield from _find_numbers(group, value)
    elif (
      isinstance(value, numbers.Real)
      and not isinstance(value, bool)
      and math.isfinite(value)
      and not str(name).endswith("_at_s")
      and (value or not path.startswith(("workers/", "externals/")))
    ):
      yield f"{path}/{name}", float(value)


def read_summary(folder: run_folder.RunFolder) -> RunStatus:
  """Reads a run's last status from its summary.json.

  Raises:
    FileNotFoundError: there is no such file, since the run has not ended.
    ValueError: the file can't be read, or has no valid content.
  """
  advice = (
    ", so the run's results are unknown: restore the file, or remove it; a "
    "resumed run writes a new one at its end"
  )
  status = records.read(folder.summary, RunStatus, advice)
  if status.stopped_because is None:
    raise ValueError(
      f"{str(folder.summary)!r} does not say why the run stopped{advice}"
    )
  return status
