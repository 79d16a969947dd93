"""RunState: the sums over all nodes' reports, and the run's status."""

import collections
import math
import time
import typing
from collections.abc import Iterable, Mapping

import ml_collections
import msgspec

from slipway.launch.control import (
  advice,
  evaluation_record,
  messages,
  node_states,
)
from slipway.launch.control import rates as rates_lib
from slipway.launch.diagnosis import finding
from slipway.launch.hooks import caller
from slipway.launch.runs import run_counters, run_status
from slipway.replay.tables import table_status

_WINDOW_S = 5.0  # seconds over which a rate is averaged


class Earlier(typing.NamedTuple):
  """What a run had reached when it lost a state, and is resumed.

  Attributes:
    status: the run's status.
    changes: values of the config's fields that users have changed meanwhile.
    hooks: caller of the run's hooks, which outlive the resume.
  """

  status: run_status.RunStatus
  changes: Mapping[str, typing.Any]
  hooks: caller.Caller


class RunState:
  """Combines the reports of all nodes into the run's counts, rates and status.

  ```python
  state = RunState(config, schedule, 'a-run', expected, time.time())
  counts = run_status.NodeCounts(env_steps=7)
  state.report('worker', 0, messages.WorkerReport(counts=counts))
  state.status().env_steps  # 7
  ```

  Attributes:
    nodes: the states of all nodes.
    evaluations: the record of the run's evaluations.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    schedule: rates_lib.Rates,
    name: str,
    expected: Mapping[str, int],
    started_at_s: float,
    resumed: run_counters.RunCounters | None = None,
    earlier: Earlier | None = None,
  ):
    """Starts with the counts of a snapshot, and with all measured rates at 0.

    Args:
      config: the whole config, whose limits may change during the run.
      expected: number of nodes of each role that will report.
      started_at_s: unix seconds of the user's command.
      resumed: counters of the snapshot from which the run is resumed, or None
        if the run is new.
      earlier: what the run had reached when it lost a state, or None.
    """
    self._config = config
    self._table_spec = schedule.table
    self._publish_period = schedule.publish_period
    self._advisor = advice.Advisor()
    self._name, self._started_at_s = name, started_at_s
    # Monotonic seconds of the user's command.
    self._began_s = time.monotonic() - max(0.0, time.time() - started_at_s)
    self._resumed = resumed
    # The run never falls behind its resumes, duration and version of the
    # variables: a process that outlives a resume, an external one, may have it.
    found = earlier or resumed
    self._before = found.status if found else run_status.RunStatus(resumes=-1)
    # Unix seconds of the first update, and the counts at it; None before it.
    self._first_step_at_s: float | None = None
    self._learning_since: run_status.Milestone | None = None
    has_table = schedule.table is not None
    self.nodes = node_states.NodeStates(expected, has_table, resumed)
    self.evaluations = evaluation_record.EvaluationRecord(resumed)
    # Monotonic seconds and counts of the samples of the last seconds.
    self._samples: collections.deque[tuple[float, dict[str, int]]] = (
      collections.deque()
    )
    self._rates: Mapping[str, float] = {}  # per second, by name

  def report(
    self,
    role: str,
    index: int,
    report: messages.Report,
    finished: bool = False,
  ) -> None:
    """Records a node's report.

    Args:
      report: the newest report, with counts of the node's current process.
      finished: whether this is the last report, because the node has ended.
    """
    self.nodes.find_or_add(role, index).record(report, finished)
    if not isinstance(report, messages.TrainerReport):
      return
    if self._first_step_at_s is None and report.first_step_at_s is not None:
      self._first_step_at_s = report.first_step_at_s
      self._learning_since = run_status.Milestone(
        self._wall_s(), self.nodes.sum_counts().env_steps, self._trainer_steps()
      )

  def counters(self) -> run_counters.RunCounters:
    """Returns the run's current counters, for a new snapshot."""
    return run_counters.RunCounters(
      self.status(),
      list(self.evaluations.returns),
      self.nodes.counters(),
      [*map(dict, self.evaluations.infos)],
    )

  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node reported."""
    return max(self._before.variables.version, self.nodes.variables_version())

  def advise(self, status: run_status.RunStatus) -> None:
    """Finds advice for the next statuses; called once a second."""
    returns = self.evaluations.returns
    self._advisor.update(
      finding.Evidence(self._config, status, status.learner, returns)
    )

  def update(self) -> None:
    """Computes all rates, over the last 5 s; called once a second."""
    sums, now_s = self.nodes.sum_counts(), time.monotonic()
    counts = {
      "env_steps": sums.env_steps,
      "trainer_steps": self._trainer_steps(),
      "items": sums.items_confirmed,
      "episodes": sums.episodes,
      "bytes_up": sums.bytes_up,
      "variable_loads": sums.variable_loads,
    }
    samples = self._samples
    # A count falls where a node was restarted.
    if samples and any(counts[x] < n for x, n in samples[-1][1].items()):
      samples.clear()
    samples.append((now_s, counts))
    while now_s - samples[0][0] > _WINDOW_S:
      samples.popleft()
    oldest_s, oldest = samples[0]
    passed_s = now_s - oldest_s
    self._rates = {
      name: (count - oldest[name]) / passed_s if passed_s > 0 else 0.0
      for name, count in counts.items()
    }

  def clear_rates(self) -> None:
    """Sets all rates to 0, and discards the samples of earlier counts."""
    self._samples.clear()
    self._rates = {}

  def status(self) -> run_status.RunStatus:
    """Returns the run's status, with rates as of the last `update`.

    Fields that depend on commands, such as `phase`, have their defaults.
    `RunControl.status` fills them in.
    """
    config = self._config
    counts, trainer = self.nodes.sum_counts(), self._trainer()
    reports = self._collectors()
    restarts = self.nodes.restarts()
    return run_status.RunStatus(
      **msgspec.structs.asdict(counts),
      name=self._name,
      mode=config.mode,
      waiting=self.nodes.describe_waits(),
      resumes=self._resumes,
      wall_s=self._wall_s(),
      start_up_s=(
        self._first_step_at_s - self._started_at_s
        if self._first_step_at_s
        else None
      ),
      learning_since=self._learning_since,
      trainer_steps=self._trainer_steps(),
      training_return=self._training_return(),
      replay=self._replay(),
      rates=self._rates_status(counts.env_steps),
      variables=run_status.VariablesStatus(
        self.variables_version(),
        _mean(report.variables_age_s for report in reports),
        self._loads_per_trainer_step(),
        1.0 / self._publish_period,
      ),
      evaluation=self.evaluations.status(config.limits),
      snapshots=_snapshots(trainer.snapshots),
      limits=_limits(config.limits),
      nodes=self.nodes.statuses(),
      restarts=sum(restarts.values()),
      node_restarts=restarts,
      learner=trainer.metrics,
      advice=list(self._advisor.sentences),
      proxy=self._proxy(),
      workers=self._workers(),
      externals=self._statuses(messages.EXTERNAL),
      unwritten=self._unwritten(),
    )

  def _collectors(self) -> list[messages.WorkerReport]:
    """Returns the reports of all workers and external processes."""
    return [
      report
      for role in node_states.COLLECTING
      for report in self.nodes.reports(role, messages.WorkerReport)
    ]

  def _training_return(self) -> float | None:
    """Returns the mean return of the workers' last episodes, or None."""
    return _mean(report.training_return for report in self._collectors())

  def _unwritten(self) -> list[str]:
    """Returns the names of the files that nodes can't write."""
    # The name 'snapshot' stands for a complete snapshot, and 'episodes' for
    # those that workers record.
    names = ["snapshot"] if self._trainer().snapshots.unwritten else []
    evaluators = self.nodes.reports("evaluator", messages.EvaluatorReport)
    for report in (*evaluators, *self._collectors()):
      names += report.unwritten
    return names

  def _wall_s(self) -> float:
    """Returns the run's duration in seconds, including time before a resume."""
    return time.monotonic() - self._began_s + self._before.wall_s

  @property
  def _resumes(self) -> int:
    """Number of resumes of the run, by commands and after lost states."""
    return self._before.resumes + 1

  def _rates_status(self, env_steps: int) -> run_status.RatesStatus:
    """Returns the status's section about rates, given the current count."""
    rates, since = self._rates, self._learning_since
    means: dict[str, typing.Any] = {}
    if since is not None:
      wall_s = self._wall_s() - since.wall_s
      collected = env_steps - since.env_steps
      updates = self._trainer_steps() - since.trainer_steps
      means = {
        "mean_env_steps_per_s": _ratio(collected, wall_s),
        "mean_trainer_steps_per_s": _ratio(updates, wall_s),
        "trainer_steps_per_env_step": _ratio(updates, collected),
      }
    return run_status.RatesStatus(
      env_steps_per_s=rates.get("env_steps", 0.0),
      trainer_steps_per_s=rates.get("trainer_steps", 0.0),
      items_per_s=rates.get("items", 0.0),
      episodes_per_s=rates.get("episodes", 0.0),
      bytes_up_per_s=rates.get("bytes_up", 0.0),
      **means,
    )

  def _trainer(self) -> messages.TrainerReport:
    """Returns the trainer's newest report, or a report of zeros without one."""
    reports = self.nodes.reports("trainer", messages.TrainerReport)
    return reports[0] if reports else messages.TrainerReport()

  def _trainer_steps(self) -> int:
    """Returns the run's trainer steps, by the trainer's newest report."""
    if self.nodes.reports("trainer", messages.TrainerReport):
      return self._trainer().trainer_steps
    resumed = self._resumed
    return resumed.status.trainer_steps if resumed else 0

  def _loads_per_trainer_step(self) -> float | None:
    """Returns the mean number of variable loads per worker and trainer step."""
    expected = self.nodes.expected()
    workers = sum(expected.get(role, 0) for role in node_states.COLLECTING)
    trainer_steps_per_s = self._rates.get("trainer_steps", 0.0)
    if trainer_steps_per_s <= 0.0 or not workers:
      return None
    return self._rates["variable_loads"] / trainer_steps_per_s / workers

  @property
  def _is_sharded(self) -> bool:
    """Whether several servers share the replay."""
    table = self._table_spec
    return table is not None and table.shards > 1

  def _table_counts(self) -> table_status.TableStatus | None:
    """Returns the counts of the table, or sums over all shards."""
    servers = [
      node.report.replay
      for node in self.nodes.by_index("replay").values()
      if isinstance(node.report, messages.ReplayReport)
    ]
    if not self._is_sharded:
      return servers[0] if servers else self._trainer().replay
    if not servers or self._table_spec is None:
      return None
    return table_status.TableStatus.from_shards(
      servers, self._table_spec.min_size
    )

  def _replay(self) -> run_status.ReplayStatus | None:
    """Returns the status's section about replay, or None without a table."""
    # What no server has reported yet is as in the snapshot of a resumed run.
    spec, resumed = self._table_spec, self._resumed
    if spec is None:
      return None
    before = (resumed and resumed.status.replay) or run_status.ReplayStatus()
    counts = self._table_counts() or table_status.TableStatus(before.size)
    shards = {
      index: node.report.replay
      for index, node in self.nodes.by_index("replay").items()
      if isinstance(node.report, messages.ReplayReport) and self._is_sharded
    }
    return run_status.ReplayStatus(
      **msgspec.structs.asdict(counts),
      capacity=spec.shards * spec.capacity,
      samples_per_insert_target=spec.samples_per_insert,
      is_queue=spec.is_queue,
      shards={**before.shards, **shards},
    )

  def _proxy(self) -> run_status.ProxyStatus | None:
    """Returns the status's section about proxies, or None without a proxy."""
    if not self.nodes.expected().get("proxy"):
      return None
    reports = self.nodes.reports("proxy", messages.ProxyReport)
    ages_s = [
      report.variables_age_s
      for report in reports
      if report.variables_age_s is not None
    ]
    return run_status.ProxyStatus(
      connections=sum(report.connections for report in reports),
      variables_version=min(
        (
          report.variables_version
          for report in reports
          if report.variables_version is not None
        ),
        default=None,
      ),
      variables_age_s=max(ages_s, default=None),
    )

  def _workers(self) -> dict[int, run_status.WorkerStatus]:
    """Returns the status of each worker, by index."""
    # Its streams are in the report of its proxy.
    workers = self._statuses("worker")
    for report in self.nodes.reports("proxy", messages.ProxyReport):
      for index, streams in report.workers.items():
        workers[index] = msgspec.structs.replace(
          workers.get(index, run_status.WorkerStatus()),
          **msgspec.structs.asdict(streams),
        )
    return workers

  def _statuses(self, role: str) -> dict[int, run_status.WorkerStatus]:
    """Returns the counts of each worker or external process, by index."""
    return {
      index: run_status.WorkerStatus(
        **msgspec.structs.asdict(node.counters.counts)
      )
      for index, node in self.nodes.by_index(role).items()
    }


def _mean(values: Iterable[float | None]) -> float | None:
  """Returns the mean of the values that are not None, or None without any."""
  known = [value for value in values if value is not None]
  return sum(known) / len(known) if known else None


def _ratio(count: float, divisor: float) -> float | None:
  """Returns `count` / `divisor`, or None if the divisor is 0."""
  return count / divisor if divisor > 0 else None


def _snapshots(
  reported: run_status.SnapshotsStatus,
) -> run_status.SnapshotsStatus:
  """Returns the status's section about snapshots, by the trainer's report."""
  if reported.written_at_s is None:
    return reported
  age_s = time.time() - reported.written_at_s
  return msgspec.structs.replace(reported, age_s=age_s)


def _limits(limits: ml_collections.ConfigDict) -> run_status.Limits:
  """Returns the status's section about limits, from that of the config."""
  target = limits.target_return
  return run_status.Limits(
    **{
      **limits.to_dict(),
      "target_return": target if math.isfinite(target) else None,
    }
  )
