"""RunControl: the run's counts, limits, commands and order of stopping."""

import math
import pathlib
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

# Where one node has failed, another that is silent for so long has too.
_SILENT_AFTER_S = 2.0
_TICK_S = 0.05
# A node that is still importing when the run stops has so long to come up; one
# that died before it ever reported never does.
_STARTS_WITHIN_S = 15.0
# Nodes report four times a second, but one may have died meanwhile. Below the
# time after which they give a call up.
_CATCHES_UP_WITHIN_S = 2.0
_LONGEST_POLL_S = 1.0
_ENDED_BY_EVALUATION = ("target_return", "evaluations_without_improvement")
_METRICS_PERIOD_S = 1.0  # also of saving what a successor needs


class ControlState(msgspec.Struct, forbid_unknown_fields=True):
  """What a restarted control node continues from, as JSON.

  Attributes:
    config: the whole config, as `config_file` writes it.
    run: counts of the run.
    commands: for the nodes.
    stopped_because: reason of the stop; None: the run has not been stopped.
    stop_requested_at_s: monotonic seconds of the stop.
    stop_grace_from_s: monotonic seconds from which the graces of the stop
      order count.
    snapshot: number of the newest that the hooks know; 0: none.
    evaluation_key: of the last evaluation that was counted.
    evaluation_is_best: whether that one was the best so far.
  """

  config: str
  run: run_state.SavedRun
  commands: commands.Commands
  stopped_because: str | None = None
  stop_requested_at_s: float = 0.0
  stop_grace_from_s: float = 0.0
  snapshot: int = 0
  evaluation_key: str = ""
  evaluation_is_best: bool = False


class RunControl(control_service.ControlService):
  """Counts steps, enforces limits, commands the nodes, writes the results.

  Its methods may be called from several threads. `slipway.launch.nodes.control`
  serves those of `ControlService` to other processes; in a single process they
  are called directly.
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
    """Opens the run's result files.

    Args:
      config: the whole config.
      folder: of the run.
      expected: how many nodes of each role will report.
      started_at_s: unix seconds of the user's command.
      rates: of the run.
      state_path: file for a successor of this process; if it exists, this is a
        successor. None: there is none.
      workers_fixed_because: why the number of workers can't change, as the end
        of a sentence; '': it can.

    Raises:
      ValueError: one line: a file of the run cannot be read.
    """
    self._workers_fixed_because = workers_fixed_because
    self._state_path = state_path
    self._lock = threading.RLock()
    self._reported = threading.Condition(self._lock)
    self._restored_at_s = -math.inf  # monotonic
    evaluations = env_steps = None
    if state_path and state_path.exists():
      logging.info("continues where the last control node was killed")
      self._saved = records.read(
        state_path, ControlState, "stop the run and resume it"
      )
      # Its settings change during the run; the caller's do not.
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
        run_state.SavedRun.start(folder.name, expected, started_at_s, resumed),
        commands.Commands(
          expected.get("worker", 0),
          expected.get("proxy", 0),
          config.rates.environment_steps_per_s,
        ),
        snapshot=snapshot.number if snapshot else 0,
      )
    self._commands = self._saved.commands
    self._state = run_state.RunState(self._config, self._saved.run, rates)
    if self._restored_at_s > 0.0:
      self._state.count_restart("control", 0)
    self._results = results_lib.Results(folder, evaluations, env_steps)
    if self._restored_at_s > 0.0 and self._saved.run.evaluation is not None:
      self._results.restore_evaluation(self._saved.run.evaluation)
    self._watchdog = watchdog_lib.Watchdog(self._config, rates)
    # By part of the run, where it is on machines.
    self._machines: Mapping[str, run_status.MachineStatus] = {}
    self._released = threading.Event()
    self._forced = False  # a node failed, or the run must end soon
    self._closed = False
    self._metrics_due_s = 0.0
    self._hooks = caller.Caller(self._config, folder.path)
    if self._restored_at_s < 0.0:
      self._results.write_config(self._config)
      self._hooks.send("start", self.status)

  @property
  def outbox(self) -> outbox.Outbox:
    """Writes the files of the run that this process has."""
    return self._results.outbox

  @property
  def limits(self) -> ml_collections.ConfigDict:
    """The limits now, section `limits` of the config; not to be changed."""
    return self._config.limits

  def report(
    self, role: str, index: int, report: messages.Report
  ) -> messages.Command:
    """Takes a node's report; returns what the node should do now."""
    with self._lock:
      self._take(role, index, report, finished=False)
      return self.command(role, index)

  def finished(self, role: str, index: int, report: messages.Report) -> None:
    """Takes the last report of a node that has ended."""
    with self._lock:
      self._take(role, index, report, finished=True)

  def command(self, role: str, index: int) -> messages.Command:
    """Returns what a node should do now."""
    with self._lock:
      return self._commands.for_node(
        role, index, self._may_stop(role), self._state.collected_version()
      )

  def register(self, role: str, index: int) -> messages.Registration:
    """Returns what the predecessors of a node that starts have done."""
    with self._lock:
      return self._state.registration(role, index)

  def wait_collected(self, version: int, timeout_s: float) -> int:
    """Waits until every worker has collected its share of a round.

    Args:
      version: of the variables with which they collect.
      timeout_s: seconds after which the wait is over in any case; at most 1,
        below the timeout of a call.

    Returns:
      The version with which every worker has collected; lower than `version`
      if the time is over or the run stops.
    """
    with self._reported:
      self._reported.wait_for(
        lambda: (
          self._saved.stopped_because is not None
          or self._state.collected_version() >= version
        ),
        min(timeout_s, _LONGEST_POLL_S),
      )
      return self._state.collected_version()

  def counters(self) -> run_counters.RunCounters:
    """Returns what a snapshot keeps of the run."""
    self._catch_up()
    with self._lock:
      return self._state.counters()

  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node knows."""
    with self._lock:
      return self._state.variables_version()

  def evaluated(self, evaluation: messages.Evaluation) -> bool:
    """Takes one evaluation; returns whether it is the best so far.

    An evaluation that is sent again, because the reply to it was lost, counts
    once. Evaluations after the one that ended the run are ignored. If something
    else ended the run, the evaluation that was under way counts: otherwise
    equal runs would differ by when their end was noticed.

    Args:
      evaluation: of at least one episode.
    """
    self._catch_up()
    with self._lock:
      saved = self._saved
      if evaluation.key and evaluation.key == saved.evaluation_key:
        return saved.evaluation_is_best
      if self._closed or saved.stopped_because in _ENDED_BY_EVALUATION:
        return False
      row = results_lib.make_evaluation(
        self._state.status(),
        evaluation.returns,
        evaluation.lengths,
        evaluation.variables_version,
      )
      best = self._state.add_evaluation(row)
      saved.evaluation_key, saved.evaluation_is_best = evaluation.key, best
      # Before the row: a successor adds that if it is missing.
      self._save_state()
      self._results.add_evaluation(row)
      self._hooks.send("evaluation", self.status)
      return best

  def stop(self, reason: str) -> None:
    """Ends the run, in order; the first reason is the one that is kept."""
    with self._lock:
      if self._saved.stopped_because is None:
        logging.info("stopping: %s", reason)
        # The trainer continues until its group stops, so that a full table
        # takes what the workers still have.
        self._commands.paused = False
        now_s = time.monotonic()
        self._saved.stopped_because = reason
        self._saved.stop_requested_at_s = now_s
        self._saved.stop_grace_from_s = now_s
        self._reported.notify_all()
        self._save_state()

  def force_shutdown(self, reason: str) -> None:
    """Ends the run without waiting for nodes that have fallen silent."""
    self.stop(reason)
    self._forced = True

  def pause(self) -> None:
    """Lets no node make another step, until `resume`; limits stay in force.

    Raises:
      ValueError: one line: the run is stopping; so do the methods below.
    """
    with self._lock:
      self._check_not_stopping()
      self._commands.paused = True
      self._state.clear_rates()
      self._save_state()

  def resume(self) -> None:
    """Lets the nodes continue after `pause`."""
    with self._lock:
      self._check_not_stopping()
      self._commands.paused = False
      self._save_state()

  def save(self) -> None:
    """Requests a snapshot."""
    with self._lock:
      self._check_not_stopping()
      self._commands.saves_requested += 1

  def set_workers(self, count: int) -> None:
    """Sets the number of workers.

    Raises:
      ValueError: also if the number is out of range, or can't change.
    """
    with self._lock:
      self._check_not_stopping()
      if self._machines:
        raise ValueError(
          "the workers of this run follow its machines, so their number does "
          "not change: let machines join the cluster, or leave it"
        )
      if self._workers_fixed_because:
        raise ValueError(self._workers_fixed_because)
      base.check_workers(count)
      logging.info("the number of workers is %d now", count)
      self._state.expect("worker", count)
      self._commands.workers = count
      self._config.topology.workers = count
      self._save_state()

  def place(self, placement: messages.Placement) -> None:
    """Takes the machines that the run has now."""
    expected, absent = placement.expected, placement.absent
    with self._lock:
      if self._saved.stopped_because is not None:
        return
      self._machines = placement.machines
      for role, count in expected.items():
        self._state.expect(role, count)
      self._state.set_absent(absent)
      missing = sum(role == "proxy" for role, _ in absent)
      self._commands.proxies = max(1, expected["proxy"] - missing)
      self._commands.workers = expected["worker"]
      self._config.topology.workers = expected["worker"]

  def set(self, field: str, value: float | str) -> None:
    """Changes a field of the config during the run.

    Args:
      field: one of `settings.FIELDS`.
      value: of the field's type, or its text.

    Raises:
      ValueError: also if there is no such field, or it can't have the value.
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
    """Returns the status of the run."""
    with self._lock:
      status = self._state.status()
      phase, waiting = self._phase(status), status.waiting
      if phase == "paused":
        waiting = "paused"  # nodes that wait do so because of the pause
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
    """Checks the limits, and writes metrics once a second."""
    with self._lock:
      status = self.status()
      self._check_limits(status)
      self._check_snapshot(status)
      working = status.phase in ("starting", "running")
      now_s = time.monotonic()
      if self._watchdog.look(status, working, now_s):
        logging.warning("%s", self._explain_stall(status))
      may_start = now_s - self._saved.stop_requested_at_s < _STARTS_WITHIN_S
      if may_start and not self._forced and not self._state.all_up():
        # A node that is still importing can't stop yet: its grace comes later.
        self._saved.stop_grace_from_s = now_s
      if now_s >= self._metrics_due_s:
        self._metrics_due_s = now_s + _METRICS_PERIOD_S
        if self._commands.paused:  # a mean over the last seconds would fade
          self._state.clear_rates()
        else:
          self._state.update_rates()
        self._results.add_metrics(self.status())
        self._save_state()
        self._results.outbox.flush()

  def all_finished(self) -> bool:
    """Returns whether the run was stopped and every node has ended."""
    with self._lock:
      if self._saved.stopped_because is None:
        return False
      waited_s = time.monotonic() - self._saved.stop_grace_from_s
      # A node that failed never reports that it has ended: it falls silent.
      silent_s = _SILENT_AFTER_S if self._forced else math.inf
      return waited_s > stop_order.LONGEST_S or all(
        self._state.finished(role, silent_s) for role in stop_order.ROLES
      )

  def release(self) -> None:
    """Ends `wait_released`: the launcher has received the last status."""
    self._released.set()

  def wait_released(self, timeout_s: float) -> None:
    """Waits for `release`, at most so many seconds."""
    self._released.wait(timeout_s)

  def close(self) -> None:
    """Writes the results that are written once, at the end.

    Raises:
      OSError: one line: the disk is full.
    """
    with self._lock:
      self._closed = True
      status = self.status()
      self._check_snapshot(status)
      self._results.add_metrics(status)
      self._results.write_summary(status)
    # Without the lock: others read the status meanwhile, and a trainer that is
    # late reads the counts for its last snapshot.
    self._results.draw_curves()
    self._hooks.close(self.status)
    self._results.close()

  def _take(
    self, role: str, index: int, report: messages.Report, finished: bool
  ) -> None:
    self._state.report(role, index, report, finished)
    self._reported.notify_all()

  def _save_state(self) -> None:
    """Saves what a successor needs."""
    if self._state_path:
      self._saved.config = config_file.to_json(self._config)
      state = records.to_json(self._saved).encode()
      self._results.outbox.replace(self._state_path, state)

  def _catch_up(self) -> None:
    """Waits until the nodes have reported to a restarted control node.

    Without their reports, counts would be older than those written before the
    restart.
    """
    end_s = self._restored_at_s + _CATCHES_UP_WITHIN_S
    while time.monotonic() < end_s:
      with self._lock:
        if not self._state.awaits_reports_since(self._restored_at_s):
          return
      time.sleep(_TICK_S)

  def _check_not_stopping(self) -> None:
    """Raises ValueError if the run takes no more commands."""
    because = self._saved.stopped_because
    if because is not None:
      raise ValueError(f"the run is stopping ({because}), so nothing changes")

  def _explain_stall(self, status: run_status.RunStatus) -> str:
    return self._watchdog.explain(
      status,
      self._state.silent(),
      # An evaluation that lasts delays no other node.
      self._state.waiting(but=(*waits.LIMITER, waits.EPISODES)),
    )

  def _check_limits(self, status: run_status.RunStatus) -> None:
    counts = limits.Counts.from_status(status)
    reason = limits.find_reason(self._config.limits, counts)
    if reason is not None:
      self.stop(reason)

  def _check_snapshot(self, status: run_status.RunStatus) -> None:
    """Calls the hooks if there is a new snapshot."""
    if status.snapshots.written > self._saved.snapshot:
      self._saved.snapshot = status.snapshots.written
      self._hooks.send("snapshot", self.status)

  def _may_stop(self, role: str) -> bool:
    if self._saved.stopped_because is None:
      return False
    waited_s = time.monotonic() - self._saved.stop_grace_from_s
    return stop_order.may_stop(role, waited_s, self._state.finished)

  def _phase(self, status: run_status.RunStatus) -> str:
    if self._closed:
      return "stopped"
    if self._saved.stopped_because is not None:
      return "stopping"
    if self._commands.paused:
      return "paused"
    return "starting" if status.start_up_s is None else "running"
