"""RunControl: the control node's logic: counts, limits and commands."""

import math
import pathlib
import signal
import threading
import time
from collections.abc import Mapping

import ml_collections
import msgspec
from absl import logging

from slipway.configs import base
from slipway.launch.hooks import caller
from slipway.launch.orchestration import (
  commands,
  control_service,
  limits,
  messages,
  run_state,
  saved_run,
  settings,
  stop_order,
  waits,
)
from slipway.launch.orchestration import rates as rates_lib
from slipway.launch.orchestration import watchdog as watchdog_lib
from slipway.launch.runs import (
  config_file,
  outbox,
  records,
  run_counters,
  run_folder,
  run_status,
  snapshot_store,
)
from slipway.launch.runs import results as results_lib

# In a forced shutdown: seconds without a report after which a node counts as
# ended.
_SILENT_AFTER_S = 2.0
_POLL_S = 0.05  # seconds between two checks for missing reports
# Longest time in seconds after a stop request for which the grace periods wait
# for nodes that are still starting. Without it, a node that died before its
# first report would delay them forever.
_START_TIMEOUT_S = 15.0
# Seconds for which a restarted control node waits for the reports of all live
# nodes. It is below the timeout of their calls.
_CATCH_UP_TIMEOUT_S = 2.0
# Longest time in seconds for which `RunControl.wait_collected` blocks. It is
# below the timeout of an RPC.
_LONGEST_WAIT_S = 1.0
# Names of the limits that only an evaluation can reach.
_EVALUATION_LIMITS = ("target_return", "evaluations_without_improvement")
# Seconds between two writes of the metrics and of the control node's state.
_METRICS_PERIOD_S = 1.0


class ControlState(msgspec.Struct, forbid_unknown_fields=True):
  """The saved state from which the control node continues after a restart.

  Attributes:
    config: the whole config as JSON, in the format of `config_file`.
    run: reports and counts of the run.
    commands: the settings from which each node's command is made.
    stopped_because: reason of the stop, or None if the run was not stopped.
    stop_requested_at_s: monotonic seconds at which the stop was requested.
    stop_grace_from_s: monotonic seconds at which the first grace period of the
      stop order begins. It moves forward while the last snapshot is written.
    stops_quickly: whether the last snapshot may take only seconds, since the
      nodes may be killed soon: after a signal, a failure, or the loss of the
      launcher.
    snapshot: number of the newest snapshot for which the hooks were called, or
      0 if there is none.
    evaluation_key: `Evaluation.key` of the last evaluation that was counted.
    evaluation_reply: the reply to that evaluation.
  """

  config: str
  run: saved_run.SavedRun
  commands: commands.Commands
  stopped_because: str | None = None
  stop_requested_at_s: float = 0.0
  stop_grace_from_s: float = 0.0
  stops_quickly: bool = False
  snapshot: int = 0
  evaluation_key: str = ""
  evaluation_reply: messages.EvaluationReply = messages.EvaluationReply()


class RunControl(control_service.ControlService):
  """Counts a run's steps, enforces its limits, and makes its nodes' commands.

  The object also writes the run's results, and is thread-safe.
  `slipway.launch.nodes.control` serves the methods of `ControlService` to other
  processes; mode `single` calls them directly.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    folder: run_folder.RunFolder,
    expected: Mapping[str, int],
    started_at_s: float,
    rates: rates_lib.Rates,
    state_path: pathlib.Path | None = None,
    workers_fixed_because: str = "",
  ):
    """Opens the run's result files, and restores the saved state, if any.

    Args:
      config: the whole config.
      folder: the run's folder.
      expected: number of nodes of each role that will report.
      started_at_s: unix seconds of the user's command.
      rates: the run's schedule.
      state_path: file of the saved state, which is restored if it exists, or
        None to save no state.
      workers_fixed_because: message of the error that `set_workers` raises, or
        an empty text if the number of workers can change.

    Raises:
      ValueError: a file of the run cannot be read.
    """
    self._workers_fixed_because = workers_fixed_because
    self._shards = rates.table.shards if rates.table is not None else 1
    self._state_path = state_path
    self._lock = threading.RLock()
    self._reported = threading.Condition(self._lock)
    self._restored_at_s = -math.inf  # monotonic
    evaluations = env_steps = None
    if state_path and state_path.exists():
      logging.info("continues from the state of a killed control node")
      self._saved = records.read(
        state_path, ControlState, "stop the run and resume it"
      )
      # The saved config has the changes that were made during the run.
      self._config = config_file.from_json(self._saved.config)
      self._restored_at_s = time.monotonic()
    else:
      self._config = config.copy_and_resolve_references()
      snapshot = snapshot_store.open_store(config, folder).newest()
      resumed = snapshot and run_counters.RunCounters.read(snapshot.path)
      if resumed:
        evaluations = resumed.evaluations
        env_steps = resumed.environment_steps
      self._saved = ControlState(
        config_file.to_json(self._config),
        saved_run.SavedRun.start(folder.name, expected, started_at_s, resumed),
        commands.Commands(
          expected.get("worker", 0),
          steps_per_s=config.rates.environment_steps_per_s,
        ),
        snapshot=snapshot.number if snapshot else 0,
      )
    self._commands = self._saved.commands
    self._state = run_state.RunState(self._config, self._saved.run, rates)
    self._nodes = self._state.nodes
    if self._restored_at_s > 0.0:
      self._state.count_control_restart()
    self._results = results_lib.Results(folder, evaluations, env_steps)
    if self._restored_at_s > 0.0 and self._saved.run.evaluation is not None:
      self._results.restore_evaluation(self._saved.run.evaluation)
    self._watchdog = watchdog_lib.Watchdog(self._config, rates)
    # By node group; empty on a single machine.
    self._machines: Mapping[str, run_status.MachineStatus] = {}
    self._released = threading.Event()
    # After `force_shutdown`, nodes that no longer report count as ended.
    self._forced = False
    self._ticked_at_s = time.monotonic()
    self._closed = False
    self._metrics_due_s = 0.0
    self._hooks = caller.Caller(self._config, folder.path)
    if self._restored_at_s < 0.0:
      self._results.write_config(self._config)
      self._hooks.send("start", self.status)

  @property
  def outbox(self) -> outbox.Outbox:
    """Outbox through which this process writes the run's files."""
    return self._results.outbox

  @property
  def limits(self) -> ml_collections.ConfigDict:
    """Section `limits` of the config; the caller must not change it."""
    return self._config.limits

  def report(
    self, role: str, index: int, report: messages.Report
  ) -> messages.Command:
    """Records a node's periodic report, and returns the node's command.

    Args:
      role: the node's role, such as 'worker'.
      index: index of the node among the nodes of its role.
      report: counts of the node's current process.
    """
    with self._lock:
      self._record(role, index, report, finished=False)
      return self.command(role, index)

  def finished(self, role: str, index: int, report: messages.Report) -> None:
    """Records a node's last report, and that the node has ended."""
    with self._lock:
      self._record(role, index, report, finished=True)

  def command(self, role: str, index: int) -> messages.Command:
    """Returns the current command for a node.

    Args:
      role: the node's role, such as 'worker'.
      index: index of the node among the nodes of its role.
    """
    with self._lock:
      share = self._nodes.compute_proxy_share(index) if role == "proxy" else 1.0
      return self._commands.for_node(
        role,
        index,
        self._may_stop(role),
        self._nodes.collected_version(),
        share,
        stop_order.last_snapshot_s(self._saved.stops_quickly),
      )

  def register(self, role: str, index: int) -> messages.Registration:
    """Returns counts of a node's earlier processes, to a process that starts.

    Args:
      role: the node's role, such as 'worker'.
      index: index of the node among the nodes of its role.
    """
    with self._lock:
      return self._nodes.registration(role, index)

  def wait_collected(self, version: int, timeout_s: float) -> int:
    """Waits until every worker has collected its share of a round (mode sync).

    Args:
      version: version of the variables with which the workers collect.
      timeout_s: seconds after which the wait ends; at most 1 s is used.

    Returns:
      The newest version with which every worker has collected. It is lower
      than `version` if the timeout has passed or the run stops.
    """
    with self._reported:
      self._reported.wait_for(
        lambda: (
          self._saved.stopped_because is not None
          or self._nodes.collected_version() >= version
        ),
        min(timeout_s, _LONGEST_WAIT_S),
      )
      return self._nodes.collected_version()

  def counters(self) -> run_counters.RunCounters:
    """Returns the run's current counters, for a new snapshot."""
    self._wait_for_reports()
    with self._lock:
      return self._state.counters()

  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node reported."""
    with self._lock:
      return self._state.variables_version()

  def evaluated(
    self, evaluation: messages.Evaluation
  ) -> messages.EvaluationReply:
    """Records an evaluation, and returns whether it is the best so far.

    An evaluation that the evaluator sends again, because the reply was lost,
    counts once. Evaluations after one that has ended the run are ignored. If
    the run ended for another reason, the evaluation in progress still counts,
    so that equal runs have equal results.

    Args:
      evaluation: results of at least one episode.
    """
    self._wait_for_reports()
    with self._lock:
      saved = self._saved
      if evaluation.key and evaluation.key == saved.evaluation_key:
        return saved.evaluation_reply
      if self._closed or saved.stopped_because in _EVALUATION_LIMITS:
        return messages.EvaluationReply()
      row = results_lib.make_evaluation(
        self._state.status(),
        evaluation.returns,
        evaluation.lengths,
        evaluation.variables_version,
      )
      is_best = self._state.evaluations.add(row, evaluation.repeated)
      reply = messages.EvaluationReply(
        is_best, self._state.evaluations.best_return
      )
      saved.evaluation_key, saved.evaluation_reply = evaluation.key, reply
      # The state is saved before the row is written: a control node that is
      # restarted in between adds the missing row.
      self._save_state()
      self._results.add_evaluation(row)
      self._hooks.send("evaluation", self.status)
      return reply

  def stop(self, reason: str) -> None:
    """Stops the run: its nodes end in the order of `stop_order`.

    Args:
      reason: reason of the stop for the user. Later calls do not change it,
        but the name of a signal shortens the time for the last snapshot.
    """
    with self._lock:
      self._saved.stops_quickly |= reason in signal.Signals.__members__
      if self._saved.stopped_because is None:
        logging.info("stopping: %s", reason)
        # The trainer continues until its group stops, so that a full table
        # accepts the workers' last items.
        self._commands.paused = False
        now_s = time.monotonic()
        self._saved.stopped_because = reason
        self._saved.stop_requested_at_s = now_s
        self._saved.stop_grace_from_s = now_s
        self._reported.notify_all()
        self._save_state()

  def force_shutdown(self, reason: str) -> None:
    """Stops the run without waiting for nodes that no longer report.

    Args:
      reason: reason of the stop for the user, unless the run already stops.
    """
    with self._lock:
      self._forced = self._saved.stops_quickly = True
      self.stop(reason)

  def pause(self) -> None:
    """Pauses all nodes until `resume` is called; limits stay in force.

    Raises:
      ValueError: the run is stopping.
    """
    with self._lock:
      self._check_not_stopping()
      self._commands.paused = True
      self._state.measured_rates.clear()
      self._save_state()

  def resume(self) -> None:
    """Ends the pause that `pause` began; all nodes continue.

    Raises:
      ValueError: the run is stopping.
    """
    with self._lock:
      self._check_not_stopping()
      self._commands.paused = False
      self._save_state()

  def save(self) -> None:
    """Requests a snapshot, which the trainer writes soon after.

    Raises:
      ValueError: the run is stopping.
    """
    with self._lock:
      self._check_not_stopping()
      self._commands.saves_requested += 1

  def set_workers(self, count: int) -> None:
    """Sets the run's number of workers.

    Args:
      count: the new number; workers are started or stopped to reach it.

    Raises:
      ValueError: the run is stopping, or can't have this number of workers.
    """
    with self._lock:
      self._check_not_stopping()
      if self._machines:
        raise ValueError(
          "the number of workers of this run follows from its machines, so it "
          "can't be set: add machines to the cluster, or remove some"
        )
      if self._workers_fixed_because:
        raise ValueError(self._workers_fixed_because)
      base.check_workers(count)
      if count < self._shards:
        raise ValueError(
          f"workers {count} is below config.replay.shards={self._shards}: each "
          "worker writes to one shard, so some shards would get no new items; "
          f"use {self._shards} or more"
        )
      logging.info("the number of workers is %d now", count)
      self._nodes.set_expected("worker", count)
      self._commands.workers = count
      self._config.topology.workers = count
      self._save_state()

  def place(self, placement: messages.Placement) -> None:
    """Records on which machines the run's nodes are currently placed.

    The expected number of nodes and the commands follow from the placement. A
    run that is stopping ignores the call.
    """
    expected, absent = placement.expected, placement.absent
    with self._lock:
      if self._saved.stopped_because is not None:
        return
      self._machines = placement.machines
      for role, count in expected.items():
        self._nodes.set_expected(role, count)
      self._nodes.set_absent(absent)
      self._commands.workers = expected["worker"]
      self._config.topology.workers = expected["worker"]

  def set(self, field: str, value: float | str) -> None:
    """Changes a limit or rate of the run's config while the run is active.

    Args:
      field: name of a field in `settings.FIELDS`.
      value: the new value, or its text.

    Raises:
      ValueError: the run is stopping, or the field can't have this value.
    """
    with self._lock:
      self._check_not_stopping()
      changed = settings.change(self._config, field, value)
      logging.info("%s is %s now", field, changed)
      self._commands.steps_per_s = self._config.rates.environment_steps_per_s
      self._commands.trainer_steps_limit = limits.last_trainer_step(
        self._config.limits
      )
      self._save_state()

  def status(self) -> run_status.RunStatus:
    """Returns the run's current status."""
    with self._lock:
      status = self._state.status()
      phase, waiting = self._phase(status), status.waiting
      if phase == "paused":
        waiting = "paused"  # the pause is the reason of all waits
      elif self._watchdog.stalled_s is not None:
        waiting = self._explain_stall(status)
      return msgspec.structs.replace(
        status,
        phase=phase,
        waiting=waiting,
        stalled_s=self._watchdog.stalled_s,
        rates=msgspec.structs.replace(
          status.rates, env_steps_per_s_target=self._commands.steps_per_s
        ),
        workers_target=self._commands.workers,
        machines=dict(self._machines),
        unwritten=sorted({*status.unwritten, *self._results.outbox.unwritten}),
        failed_hooks=self._hooks.failed,
        stopped_because=self._saved.stopped_because,
      )

  def tick(self) -> None:
    """Checks limits, new snapshots and stalls; must be called regularly.

    The call also writes metrics and saves the state, at most once per second.
    """
    with self._lock:
      status = self.status()
      self._check_limits(status)
      self._check_snapshot(status)
      working = status.phase in ("starting", "running")
      now_s = time.monotonic()
      if self._watchdog.update(status, working, now_s):
        logging.warning("%s", self._explain_stall(status))
      # A node that is still importing modules can't handle the stop yet. So the
      # grace periods begin when all nodes are up, at most _START_TIMEOUT_S
      # after the request.
      requested_s = now_s - self._saved.stop_requested_at_s
      waits_for_start = requested_s < _START_TIMEOUT_S and not self._forced
      if waits_for_start and not self._nodes.have_all_reported():
        self._saved.stop_grace_from_s = now_s
      # Where there is time, no grace period passes while the last snapshot is
      # written.
      if self._nodes.is_finishing() and not self._saved.stops_quickly:
        self._saved.stop_grace_from_s += now_s - self._ticked_at_s
      self._ticked_at_s = now_s
      if now_s >= self._metrics_due_s:
        self._metrics_due_s = now_s + _METRICS_PERIOD_S
        if self._commands.paused:
          # Otherwise the rates, as means over some seconds, would decay slowly.
          self._state.measured_rates.clear()
        else:
          self._state.update_rates()
        self._results.add_metrics(self.status())
        self._save_state()
        self._results.outbox.flush()

  def all_finished(self) -> bool:
    """Returns whether the run was stopped and its nodes have ended.

    Nodes whose grace period has passed count as ended.
    """
    with self._lock:
      if self._saved.stopped_because is None:
        return False
      waited_s = time.monotonic() - self._saved.stop_grace_from_s
      # A failed node sends no last report, so it counts as ended if it is
      # silent.
      silent_s = _SILENT_AFTER_S if self._forced else math.inf
      return waited_s > stop_order.LONGEST_S or all(
        self._nodes.finished(role, silent_s) for role in stop_order.ROLES
      )

  def release(self) -> None:
    """Lets the control node exit: the launcher has the run's last status.

    The call ends `wait_released`.
    """
    self._released.set()

  def wait_released(self, timeout_s: float) -> None:
    """Waits until `release` is called, for up to `timeout_s` seconds."""
    self._released.wait(timeout_s)

  def close(self) -> None:
    """Writes the run's final metrics, summary and curves, and ends the hooks.

    Raises:
      OSError: the disk is full.
    """
    with self._lock:
      self._closed = True
      status = self.status()
      self._check_snapshot(status)
      self._results.add_metrics(status)
      self._results.write_summary(status)
    # The lock is released here, because other threads still read the status,
    # and a trainer that ends late reads the counts for its last snapshot.
    self._results.draw_curves()
    self._hooks.close(self.status)
    self._results.close()

  def _record(
    self, role: str, index: int, report: messages.Report, finished: bool
  ) -> None:
    """Records a node's report, and wakes the callers of `wait_collected`.

    Args:
      role: the node's role.
      index: index of the node among the nodes of its role.
      report: the newest report.
      finished: whether this is the last report, because the node has ended.
    """
    self._state.report(role, index, report, finished)
    self._reported.notify_all()

  def _save_state(self) -> None:
    """Writes the `ControlState` to its file, if the run has one."""
    if self._state_path:
      self._saved.config = config_file.to_json(self._config)
      state = records.to_json(self._saved).encode()
      self._results.outbox.replace(self._state_path, state)

  def _wait_for_reports(self) -> None:
    """Waits until all live nodes have reported since a restart of this process.

    Until then, the counts may be lower than before the restart. The wait ends
    after `_CATCH_UP_TIMEOUT_S`. Without a restart, there is no wait.
    """
    end_s = self._restored_at_s + _CATCH_UP_TIMEOUT_S
    while time.monotonic() < end_s:
      with self._lock:
        if not self._nodes.awaits_reports_since(self._restored_at_s):
          return
      time.sleep(_POLL_S)

  def _check_not_stopping(self) -> None:
    """Checks that a user's command can still have an effect.

    Raises:
      ValueError: the run is stopping.
    """
    because = self._saved.stopped_because
    if because is not None:
      raise ValueError(f"the run is stopping ({because}), so nothing changes")

  def _explain_stall(self, status: run_status.RunStatus) -> str:
    """Returns one line about the cause of a stall; see `Watchdog.explain`."""
    return self._watchdog.explain(
      status,
      self._nodes.find_silent_nodes(),
      # The watchdog itself explains waits for the limiter, and a long
      # evaluation delays no other node.
      self._nodes.describe_waits(ignored=(*waits.LIMITER, waits.EPISODES)),
    )

  def _check_limits(self, status: run_status.RunStatus) -> None:
    """Stops the run if it has reached its limits."""
    counts = limits.Counts.from_status(status)
    reason = limits.find_reason(self._config.limits, counts)
    if reason is not None:
      self.stop(reason)

  def _check_snapshot(self, status: run_status.RunStatus) -> None:
    """Sends the event 'snapshot' to the hooks, once per new snapshot."""
    if status.snapshots.written > self._saved.snapshot:
      self._saved.snapshot = status.snapshots.written
      self._hooks.send("snapshot", self.status)

  def _may_stop(self, role: str) -> bool:
    """Returns whether the run is stopping and a role's nodes may stop now."""
    if self._saved.stopped_because is None:
      return False
    waited_s = time.monotonic() - self._saved.stop_grace_from_s
    return stop_order.may_stop(role, waited_s, self._nodes.finished)

  def _phase(self, status: run_status.RunStatus) -> str:
    """Returns the run's phase, such as 'running'; see `RunStatus.phase`.

    Args:
      status: the run's status, from whose `start_up_s` a start is recognised.
    """
    if self._closed:
      return "stopped"
    if self._saved.stopped_because is not None:
      return "stopping"
    if self._commands.paused:
      return "paused"
    return "starting" if status.start_up_s is None else "running"
