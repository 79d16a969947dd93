"""RunState: the control node's sums over all reports, and the run's status."""

import math
import time
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence

import ml_collections
import msgspec
import numpy as np

from slipway.configs import base
from slipway.launch.orchestration import (
  advice,
  limits,
  messages,
  node_state,
  rate,
  stop_order,
  waits,
)
from slipway.launch.orchestration import rates as rates_lib
from slipway.launch.runs import curves, run_counters, run_status
from slipway.replay.tables import table_status

# Seconds without a report after which a node counts as silent, because it hangs
# or can't reach the control node.
_SILENT_AFTER_S = 5.0
# Roles whose nodes collect experience. External processes may disconnect at any
# time, so the run never waits for them.
_COLLECTING = ("worker", stop_order.EXTERNAL)
# Seconds after which a node's wait appears in the status. Shorter waits are
# normal with a rate limiter.
_WAITING_AFTER_S = 3.0

# The type of one role's reports, such as `messages.WorkerReport`.
Report = typing.TypeVar("Report", bound=messages.Report)


class SavedRun(msgspec.Struct, forbid_unknown_fields=True):
  """The fields of a `RunState` that are saved, for a restarted control node.

  Attributes:
    name: the run's name.
    expected: number of nodes of each role that will report.
    started_at_s: unix seconds of the user's command.
    began_s: monotonic seconds of the user's command.
    resumed_from: counters of the snapshot from which the run was resumed, or
      None if it was not resumed.
    nodes: state of each node, by role and index.
    absent: role and index of each node that currently has no machine.
    evaluations: number of evaluations, including those before a resume.
    evaluation: last evaluation since the run was started or resumed, or None
      before the first.
    eval_returns: mean returns of the last evaluations, at most
      `base.RETURNS_KEPT`, in their order.
    best_return: highest mean return of a repeated evaluation, or None before
      the first.
    without_improvement: number of evaluations since `best_return` last rose.
    first_step_at_s: unix seconds of the first update, or None before it.
    learning_since: the run's counts at the first update, or None before it.
    lost: work that was lost because nodes restored older snapshots.
  """

  name: str
  expected: dict[str, int]
  started_at_s: float
  began_s: float
  resumed_from: run_counters.RunCounters | None = None
  nodes: dict[str, dict[int, node_state.NodeState]] = {}
  absent: list[tuple[str, int]] = []
  evaluations: int = 0
  evaluation: curves.Evaluation | None = None
  eval_returns: list[float] = []
  best_return: float | None = None
  without_improvement: int = 0
  first_step_at_s: float | None = None
  learning_since: run_status.Milestone | None = None
  lost: run_counters.Losses = run_counters.Losses()

  @classmethod
  def start(
    cls,
    name: str,
    expected: Mapping[str, int],
    started_at_s: float,
    resumed_from: run_counters.RunCounters | None = None,
  ) -> "SavedRun":
    """Returns the fields of a run that is started or resumed.

    Args:
      name: the run's name.
      expected: number of nodes of each role that will report.
      started_at_s: unix seconds of the user's command.
      resumed_from: counters of the snapshot from which the run is resumed, or
        None if the run is new.
    """
    age_s = max(0.0, time.time() - started_at_s)
    began_s = time.monotonic() - age_s
    run = cls(name, dict(expected), started_at_s, began_s, resumed_from)
    if resumed_from:
      run.evaluations = resumed_from.evaluations
      run.eval_returns = list(resumed_from.eval_returns)
      run.best_return = resumed_from.best_eval_return
      run.without_improvement = resumed_from.evaluations_without_improvement
      run.lost = resumed_from.lost
      run.nodes = {
        role: {
          index: node_state.NodeState.from_counters(counters)
          for index, counters in nodes.items()
        }
        for role, nodes in resumed_from.nodes.items()
      }
    return run


class RunState:
  """Combines the reports of all nodes into the run's counts, rates and status.

  ```python
  saved = SavedRun.start('a-run', expected, time.time())
  state = RunState(config, saved, schedule)
  state.report('worker', 0, messages.WorkerReport(env_steps=7))
  state.status().env_steps  # 7
  ```

  Attributes:
    saved: the fields that are saved, for a restarted control node.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    saved: SavedRun,
    schedule: rates_lib.Rates,
  ):
    """Starts with the counts of `saved`, and with all measured rates at 0.

    Args:
      config: the whole config, whose limits may change during the run.
      saved: the fields that are saved, which this object changes in place.
      schedule: the run's schedule.
    """
    self._config = config
    self._table_spec = schedule.table
    self._publish_period = schedule.publish_period
    self._advisor = advice.Advisor(config)
    self.saved = saved
    self.clear_rates()

  def report(
    self,
    role: str,
    index: int,
    report: messages.Report,
    finished: bool = False,
  ) -> None:
    """Records a node's report.

    Args:
      role: the node's role.
      index: index of the node among the nodes of its role.
      report: the newest report, with counts of the node's current process.
      finished: whether this is the last report, because the node has ended.
    """
    node = self._node(role, index)
    if node.is_restarted(report) and isinstance(
      report, messages.TrainerReport | messages.ReplayReport
    ):
      self._count_losses(node, report.restored)
    node.record(report, finished)
    if not isinstance(report, messages.TrainerReport):
      return
    self._advisor.update(report.metrics, self.saved.eval_returns)
    if (
      self.saved.first_step_at_s is None and report.first_step_at_s is not None
    ):
      self.saved.first_step_at_s = report.first_step_at_s
      self.saved.learning_since = run_status.Milestone(
        self._wall_s(), self._collected().env_steps, self._trainer_steps()
      )

  def count_control_restart(self) -> None:
    """Counts a restart of the control node, which sends no reports.

    The restarts of other nodes are found in their reports.
    """
    self._node("control", 0).restarts += 1

  def set_expected(self, role: str, count: int) -> None:
    """Sets the number of nodes of a role that will report."""
    self.saved.expected[role] = count

  def set_absent(self, nodes: Collection[tuple[str, int]]) -> None:
    """Sets which nodes currently have no machine; the run waits for none.

    Args:
      nodes: role and index of each such node.
    """
    self.saved.absent = list(nodes)

  def registration(self, role: str, index: int) -> messages.Registration:
    """Returns counts of a node's earlier processes.

    Before its first one, its environment steps are the mean of the other nodes
    of its role: one that joins explores as much as those do now.

    Args:
      role: the node's role.
      index: index of the node among the nodes of its role.
    """
    nodes = self.saved.nodes.get(role, {})
    if node := nodes.get(index):
      return messages.Registration(node.incarnations, node.counts.env_steps)
    steps = [node.counts.env_steps for node in nodes.values()]
    return messages.Registration(0, sum(steps) // max(1, len(steps)))

  def add_evaluation(
    self, evaluation: curves.Evaluation, repeated: Sequence[float] = ()
  ) -> bool:
    """Records an evaluation, and returns whether it is the best so far.

    The highest of many noisy means overestimates the policy that it selects.
    So an evaluation is compared by the mean return of its repetition, which has
    other episodes; without a repetition it is never the best. One that equals
    the best counts as the best, but not as an improvement.

    Args:
      evaluation: the row of the curves.
      repeated: [N], returns of the repetition's episodes; empty if there was
        none.
    """
    assert evaluation.eval_return is not None
    saved = self.saved
    saved.evaluations += 1
    saved.evaluation = evaluation
    saved.eval_returns.append(evaluation.eval_return)
    del saved.eval_returns[: -base.RETURNS_KEPT]
    saved.without_improvement += 1
    if not repeated:
      return False
    mean_return = float(np.mean(repeated))
    if saved.best_return is not None and mean_return < saved.best_return:
      return False
    if saved.best_return is None or mean_return > saved.best_return:
      saved.without_improvement = 0
    saved.best_return = mean_return
    return True

  def counters(self) -> run_counters.RunCounters:
    """Returns the run's current counters, for a new snapshot."""
    status = self.status()
    return run_counters.RunCounters(
      mode=status.mode,
      environment_steps=status.env_steps,
      episodes=status.episodes,
      trainer_steps=status.trainer_steps,
      variables_version=self.variables_version(),
      replay_size=status.replay.size if status.replay else 0,
      wall_s=status.wall_s,
      evaluations=self.saved.evaluations,
      eval_returns=list(self.saved.eval_returns),
      best_eval_return=self.saved.best_return,
      evaluations_without_improvement=self.saved.without_improvement,
      resumes=status.resumes,
      lost=self.saved.lost,
      nodes={
        role: {index: node.counters for index, node in nodes.items()}
        for role, nodes in self.saved.nodes.items()
      },
      shard_sizes=self._shard_sizes(status.replay),
    )

  def _shard_sizes(
    self, replay: run_status.ReplayStatus | None
  ) -> dict[int, int]:
    """Returns the number of items in each shard, by index.

    Before a shard's first report, its number is that of the snapshot from which
    the run was resumed.

    Args:
      replay: the status's section about replay, or None without a table.
    """
    resumed_from = self.saved.resumed_from
    resumed = resumed_from.shard_sizes if resumed_from else {}
    reported = replay.shards if replay else {}
    return {
      **resumed,
      **{index: shard.size for index, shard in reported.items()},
    }

  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node reported."""
    resumed_from = self.saved.resumed_from
    versions = [resumed_from.variables_version if resumed_from else 0]
    for role, report_type in (
      ("trainer", messages.TrainerReport),
      ("proxy", messages.ProxyReport),
      ("worker", messages.WorkerReport),
    ):
      versions += [
        report.variables_version for report in self._reports(role, report_type)
      ]
    return max(versions)

  def collected_version(self) -> int:
    """Returns the newest version of the variables whose round is complete.

    A round is complete once every worker has collected its share, and the
    server has confirmed all items. The result is 0 if a worker has not yet
    collected or is not up.
    """
    nodes = self._present_nodes("worker")
    if len(nodes) < self._count_present("worker"):
      return 0
    return min(
      (
        node.report.collected_version
        if isinstance(node.report, messages.WorkerReport) and node.is_up
        else 0
        for node in nodes
      ),
      default=0,
    )

  def compute_proxy_share(self, index: int) -> float:
    """Returns the part of the limit on steps that a proxy's workers get.

    Shares are proportional to the machines' numbers of live workers and
    external processes, by the newest reports. A proxy without any has the share
    of one, for a worker that is about to connect.

    Args:
      index: index of the proxy.
    """
    node = self.saved.nodes.get("proxy", {}).get(index)
    report = node.report if node else None
    is_known = isinstance(report, messages.ProxyReport)
    own = max(1, report.live_workers) if is_known else 1
    total = sum(
      report.live_workers
      for report in self._reports("proxy", messages.ProxyReport)
    )
    return own / max(own, total)

  def finished(self, role: str, silent_s: float = math.inf) -> bool:
    """Returns whether all expected nodes of a role have ended.

    Args:
      role: role of the nodes.
      silent_s: seconds without a report after which a node also counts as
        ended. With infinity, only nodes that have sent their last report do.
    """
    since_s = time.monotonic() - silent_s
    ended = sum(
      node.finished or (silent_s < math.inf and node.is_silent_since(since_s))
      for node in self._present_nodes(role)
    )
    return ended >= self._count_present(role)

  def is_finishing(self) -> bool:
    """Returns whether the trainer is writing or uploading the last snapshot."""
    since_s = time.monotonic() - _SILENT_AFTER_S
    return any(
      isinstance(node.report, messages.TrainerReport)
      and node.report.snapshots.finishing_s is not None
      and not node.is_silent_since(since_s)
      for node in self._present_nodes("trainer")
    )

  def have_all_reported(self) -> bool:
    """Returns whether every expected node has reported at least once."""
    return all(
      sum(node.has_reported for node in self._present_nodes(role))
      >= self._count_present(role)
      for role in self.saved.expected
    )

  def find_silent_nodes(self) -> list[str]:
    """Returns the nodes that no longer report, as texts such as 'worker 1'."""
    since_s = time.monotonic() - _SILENT_AFTER_S
    return [
      f"{role} {index}"
      for role, index, node in self._all_nodes()
      if node.is_up
      and node.is_silent_since(since_s)
      and self._is_present(role, index)
    ]

  def awaits_reports_since(self, since_s: float) -> bool:
    """Returns whether a live node has not reported since a given time.

    External processes do not count, because they may disconnect at any time.

    Args:
      since_s: monotonic seconds.
    """
    absent = set(self.saved.absent)
    return any(
      node.is_up and node.is_silent_since(since_s)
      for role, index, node in self._all_nodes()
      if (role, index) not in absent and role != stop_order.EXTERNAL
    )

  def describe_waits(self, ignored: Collection[str] = ()) -> str | None:
    """Returns a sentence about the waiting nodes of one role, or None.

    The roles are checked in the order of cause: a wait of an earlier role
    causes the waits of later roles. The first role with a waiting node is
    described.

    Args:
      ignored: reasons of waits to leave out, such as `waits.TABLE`.

    Returns:
      A sentence of `waits.describe`, or None if no node has waited for longer
      than 3 s.
    """
    for role in (
      "worker",
      stop_order.EXTERNAL,
      "proxy",
      "trainer",
      "evaluator",
    ):
      blocked = [
        wait
        for node in self._present_nodes(role)
        if (wait := node.wait)
        and wait.waited_s > _WAITING_AFTER_S
        and wait.reason not in ignored
      ]
      if blocked:
        return waits.describe(
          role, self._expected()[role], blocked, time.time()
        )
    return None

  def clear_rates(self) -> None:
    """Sets measured rates to 0, and discards the samples of earlier counts."""
    self._env_steps_rate = rate.Rate()
    self._trainer_steps_rate = rate.Rate()
    self._items_rate = rate.Rate()
    self._episodes_rate = rate.Rate()
    self._proxy_bytes_rate = rate.Rate()
    self._variable_loads_rate = rate.Rate()
    self._rates = run_status.RatesStatus()
    self._proxy_bytes_per_s = self._variable_loads_per_s = 0.0

  def update_rates(self) -> None:
    """Computes all rates from the current counts; must be called regularly."""
    now_s = time.monotonic()
    workers, proxies = self._collected(), self._counts("proxy")
    self._rates = run_status.RatesStatus(
      env_steps_per_s=self._env_steps_rate.add(workers.env_steps, now_s),
      trainer_steps_per_s=self._trainer_steps_rate.add(
        self._trainer_steps(), now_s
      ),
      items_per_s=self._items_rate.add(workers.items_confirmed, now_s),
      episodes_per_s=self._episodes_rate.add(workers.episodes, now_s),
    )
    self._proxy_bytes_per_s = self._proxy_bytes_rate.add(
      proxies.bytes_up, now_s
    )
    self._variable_loads_per_s = self._variable_loads_rate.add(
      workers.variable_loads, now_s
    )

  def status(self) -> run_status.RunStatus:
    """Returns the run's status, with rates as of the last `update_rates`.

    Fields that depend on commands, such as `phase`, have their defaults.
    `RunControl.status` fills them in.
    """
    saved, config = self.saved, self._config
    workers, trainer = self._collected(), self._trainer()
    # External processes are left out of the restarts, because the launcher does
    # not restart them.
    own_nodes = [
      (role, index, node)
      for role, index, node in self._all_nodes()
      if role != stop_order.EXTERNAL
    ]
    return run_status.RunStatus(
      name=saved.name,
      mode=config.mode,
      waiting=self.describe_waits(),
      resumes=saved.resumed_from.resumes + 1 if saved.resumed_from else 0,
      wall_s=self._wall_s(),
      start_up_s=(
        saved.first_step_at_s - saved.started_at_s
        if saved.first_step_at_s
        else None
      ),
      learning_since=saved.learning_since,
      env_steps=workers.env_steps,
      env_steps_lost=saved.lost.env_steps,
      episodes=workers.episodes,
      trainer_steps=self._trainer_steps(),
      trainer_steps_lost=saved.lost.trainer_steps,
      training_return=self._mean("training_return"),
      items=run_status.ItemsStatus(
        workers.items_written,
        workers.items_confirmed,
        workers.items_lost + saved.lost.inserted,
        workers.items_discarded,
      ),
      replay=self._replay(),
      rates=self._rates,
      variables=run_status.VariablesStatus(
        trainer.variables_version,
        self._mean("variables_age_s"),
        self._loads_per_trainer_step(),
        1.0 / self._publish_period,
      ),
      evaluation=self._evaluation(),
      snapshots=_snapshots(trainer.snapshots),
      limits=run_status.Limits(**config.limits.to_dict()),
      nodes={
        role: run_status.NodesStatus(
          sum(node.is_up for node in self._present_nodes(role)), count
        )
        for role, count in self._expected().items()
        if count or (role == stop_order.EXTERNAL and self._needs_external)
      },
      restarts=sum(node.restarts for _, _, node in own_nodes),
      node_restarts={
        f"{role}/{index}": node.restarts
        for role, index, node in own_nodes
        if node.restarts
      },
      reconnects=workers.reconnects,
      metrics=trainer.metrics,
      advice=list(self._advisor.sentences),
      proxy=self._proxy(),
      workers=self._workers(),
      externals=self._collectors(stop_order.EXTERNAL),
      unwritten=self._unwritten(),
    )

  def _unwritten(self) -> list[str]:
    """Returns the names of the files that the trainer or evaluator can't write.

    The name 'snapshot' stands for a whole snapshot.
    """
    names = ["snapshot"] if self._trainer().snapshots.unwritten else []
    for report in self._reports("evaluator", messages.EvaluatorReport):
      names += report.unwritten
    return names

  def _count_losses(
    self,
    node: node_state.NodeState,
    restored: messages.RestoredCounts,
  ) -> None:
    """Adds the work that a node's restart from a snapshot has lost.

    The lost work is the difference between the run's counts and the snapshot's
    counts. Environment steps that were lost before are in neither count: a
    second restart from the same snapshot does not lose them again.

    Args:
      node: state of the node before its restart.
      restored: counts in the snapshot from which the new process was restored.
    """
    lost, replay = self.saved.lost, self._replay()
    env_steps = self._collected().env_steps - lost.env_steps
    inserted = replay.inserted if replay else 0
    env_steps_lost = _excess(env_steps, restored.env_steps)
    if isinstance(node.report, messages.ReplayReport) and self._is_sharded:
      # Only items of this shard are lost, and the steps that they consist of.
      inserted = node.report.replay.inserted
      items_lost = _excess(inserted, restored.inserted)
      assert self._table_spec is not None
      env_steps_lost = items_lost * self._table_spec.steps_per_item
    self.saved.lost = run_counters.Losses(
      lost.env_steps + env_steps_lost,
      lost.trainer_steps
      + _excess(self._trainer_steps(), restored.trainer_steps),
      lost.inserted + _excess(inserted, restored.inserted),
    )

  def _wall_s(self) -> float:
    """Returns the run's duration in seconds, including time before a resume.

    Steps of the system clock do not change it.
    """
    resumed_from = self.saved.resumed_from
    before_s = resumed_from.wall_s if resumed_from else 0.0
    return time.monotonic() - self.saved.began_s + before_s

  def _node(self, role: str, index: int) -> node_state.NodeState:
    """Returns the state of a node, or adds an empty one if it has none."""
    nodes = self.saved.nodes.setdefault(role, {})
    return nodes.setdefault(index, node_state.NodeState())

  def _all_nodes(self) -> Iterator[tuple[str, int, node_state.NodeState]]:
    """Yields role, index and state of each node, including ended nodes."""
    for role, nodes in sorted(self.saved.nodes.items()):
      for index, node in sorted(nodes.items()):
        yield role, index, node

  def _present_nodes(self, role: str) -> list[node_state.NodeState]:
    """Returns the states of a role's nodes that are present.

    Nodes that have never reported may be missing; see `_is_present`.
    """
    return [
      node
      for index, node in self.saved.nodes.get(role, {}).items()
      if self._is_present(role, index)
    ]

  def _is_present(self, role: str, index: int) -> bool:
    """Returns whether the run expects a node and the node has a machine.

    An external process is present while it reports.
    """
    if role == stop_order.EXTERNAL:
      node = self.saved.nodes[role][index]
      return node.is_up and not node.is_silent_since(
        time.monotonic() - _SILENT_AFTER_S
      )
    expected = index < self.saved.expected.get(role, 0)
    return expected and (role, index) not in self.saved.absent

  def _expected(self) -> dict[str, int]:
    """Returns the expected number of nodes by role.

    The expected number of external processes is the number of connected ones.
    """
    connected = len(self._present_nodes(stop_order.EXTERNAL))
    expected = dict(self.saved.expected)
    if connected or self._needs_external:
      expected[stop_order.EXTERNAL] = connected
    return expected

  @property
  def _needs_external(self) -> bool:
    """Whether only external processes fill the table, without any worker."""
    return self._table_spec is not None and not self.saved.expected.get(
      "worker"
    )

  def _count_present(self, role: str) -> int:
    """Returns the number of expected nodes of a role that have a machine."""
    count = self.saved.expected.get(role, 0)
    return sum(self._is_present(role, index) for index in range(count))

  def _reports(self, role: str, report_type: type[Report]) -> list[Report]:
    """Returns the newest report of each present node of a role.

    Args:
      role: role of the nodes.
      report_type: type of the role's reports; others are left out.
    """
    reports = [node.report for node in self._present_nodes(role)]
    return [report for report in reports if isinstance(report, report_type)]

  def _collected(self) -> run_counters.NodeCounts:
    """Returns the sums over all workers and external processes."""
    return self._counts(*_COLLECTING)

  def _counts(self, *roles: str) -> run_counters.NodeCounts:
    """Returns sums over all processes of all nodes of the given roles.

    Nodes and processes that have ended are included.
    """
    return run_counters.NodeCounts.from_sum(
      node.counts
      for role in roles
      for node in self.saved.nodes.get(role, {}).values()
    )

  def _trainer(self) -> messages.TrainerReport:
    """Returns the trainer's newest report, or a report of zeros without one."""
    reports = self._reports("trainer", messages.TrainerReport)
    return reports[0] if reports else messages.TrainerReport()

  def _trainer_steps(self) -> int:
    """Returns the run's trainer steps, by the trainer's newest report.

    Before the first report, the result is the count at the resume, or 0.
    """
    if self._reports("trainer", messages.TrainerReport):
      return self._trainer().trainer_steps
    resumed_from = self.saved.resumed_from
    return resumed_from.trainer_steps if resumed_from else 0

  def _mean(self, name: str) -> float | None:
    """Returns the mean of a field over workers and external processes.

    Nodes whose value is None are left out. The result is None without a value.

    Args:
      name: name of a field of `WorkerReport`.
    """
    values = [
      getattr(report, name)
      for role in _COLLECTING
      for report in self._reports(role, messages.WorkerReport)
    ]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None

  def _loads_per_trainer_step(self) -> float | None:
    """Returns the mean number of variable loads per worker and trainer step.

    The result is None if the trainer makes no steps or there are no workers.
    """
    expected = self._expected()
    workers = sum(expected.get(role, 0) for role in _COLLECTING)
    if self._rates.trainer_steps_per_s <= 0.0 or not workers:
      return None
    loads_per_step = (
      self._variable_loads_per_s / self._rates.trainer_steps_per_s
    )
    return loads_per_step / workers

  def _evaluation(self) -> run_status.EvaluationStatus:
    """Returns the status's section about evaluations."""
    last, returns = self.saved.evaluation, self.saved.eval_returns
    return run_status.EvaluationStatus(
      self.saved.evaluations,
      returns[-1] if returns else None,
      (last and last.eval_episodes) or 0,
      run_status.recent_mean_return(returns) if returns else None,
      self.saved.best_return,
      self.saved.without_improvement,
      limits.count_at_target(self._config.limits, returns),
    )

  @property
  def _is_sharded(self) -> bool:
    """Whether several servers share the replay."""
    table = self._table_spec
    return table is not None and table.shards > 1

  def _table_counts(self) -> table_status.TableStatus | None:
    """Returns the counts of the table, or sums over all shards.

    The result is None before the first report of the table's host.
    """
    servers = [
      node.report.replay
      for node in self.saved.nodes.get("replay", {}).values()
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
    saved, spec = self.saved, self._table_spec
    if spec is None:
      return None
    resumed_from = saved.resumed_from
    resumed_size = resumed_from.replay_size if resumed_from else 0
    counts = self._table_counts() or table_status.TableStatus(resumed_size)
    return run_status.ReplayStatus(
      counts.size,
      spec.shards * spec.capacity,
      counts.inserted,
      counts.sampled,
      counts.samples_per_insert,
      spec.samples_per_insert,
      spec.is_queue,
      {
        index: node.report.replay
        for index, node in sorted(saved.nodes.get("replay", {}).items())
        if isinstance(node.report, messages.ReplayReport) and self._is_sharded
      },
      self._trainer().shards_up,
    )

  def _proxy(self) -> run_status.ProxyStatus | None:
    """Returns the status's section about proxies, or None without a proxy.

    Counts are sums over all proxies; the version is the oldest of any proxy.
    """
    if not self.saved.expected.get("proxy"):
      return None
    sums = self._counts("proxy")
    reports = self._reports("proxy", messages.ProxyReport)
    ages_s = [
      report.variables_age_s
      for report in reports
      if report.variables_age_s is not None
    ]
    return run_status.ProxyStatus(
      connections=sum(report.connections for report in reports),
      connections_refused=sum(report.connections_refused for report in reports),
      bytes_up=sums.bytes_up,
      bytes_down=sums.bytes_down,
      bytes_up_per_s=self._proxy_bytes_per_s,
      variables_fetched=sums.variables_fetched,
      restarts=sum(report.restarts for report in reports),
      variables_version=min(
        (report.variables_version for report in reports), default=None
      ),
      variables_age_s=max(ages_s, default=None),
    )

  def _workers(self) -> dict[int, run_status.WorkerStatus]:
    """Returns the status of each worker, by the worker's index.

    A status combines the worker's report with the report of its proxy.
    """
    workers = self._collectors("worker")
    for report in self._reports("proxy", messages.ProxyReport):
      for index, streams in report.workers.items():
        workers[index] = msgspec.structs.replace(
          workers.get(index, run_status.WorkerStatus()),
          **msgspec.structs.asdict(streams),
        )
    return workers

  def _collectors(self, role: str) -> dict[int, run_status.WorkerStatus]:
    """Returns the item counts of each worker or external process, by index.

    Args:
      role: 'worker' or 'external'.
    """
    return {
      index: run_status.WorkerStatus(
        counts.items_confirmed, counts.items_lost, counts.reconnects
      )
      for index, node in sorted(self.saved.nodes.get(role, {}).items())
      for counts in [node.counts]
    }


def _excess(count: int, restored: int | None) -> int:
  """Returns how far a count exceeds the restored count, or 0 if it does not.

  Args:
    count: the count before a restart.
    restored: the count in the restored snapshot, or None for a result of 0.
  """
  return 0 if restored is None else max(0, count - restored)


def _snapshots(
  report: messages.SnapshotReport,
) -> run_status.SnapshotsStatus:
  """Returns the status's section about snapshots, by the trainer's report."""
  written_at_s = report.written_at_s
  return run_status.SnapshotsStatus(
    report.written,
    None if written_at_s is None else time.time() - written_at_s,
    report.pause_s,
    report.uploaded,
    report.upload_failures,
    report.finishing_s is not None,
    report.late,
  )
