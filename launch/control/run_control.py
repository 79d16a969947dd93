"""RunControl: a run's counts, limits and commands."""

import signal
import threading
import time
import typing
from collections.abc import Mapping, Sequence

import ml_collections
import msgspec
from absl import logging

from slipway.configs import base
from slipway.launch.control import (
  control_service,
  limits,
  messages,
  run_state,
  sampling,
  settings,
  stages,
  waits,
)
from slipway.launch.control import rates as rates_lib
from slipway.launch.control import watchdog as watchdog_lib
from slipway.launch.hooks import caller
from slipway.launch.runs import (
  machine_usage,
  outbox,
  run_counters,
  run_folder,
  run_status,
  snapshot_store,
)
from slipway.launch.runs import results as results_lib

# Longest time in seconds for which `RunControl.wait_collected` blocks. It is
# below the timeout of an RPC.
_LONGEST_WAIT_S = 1.0
# Reasons of a stop after which the nodes may be killed soon.
_QUICK_REASONS = ("failure", *signal.Signals.__members__)
# Seconds for which processes sample their stacks after each request, and then
# have time to send their profiles. It is below the timeout of an RPC.
_SAMPLING_S = 2.0
# Seconds between two writes of the metrics at a run's beginning.
_METRICS_PERIOD_S = 1.0
# Duration of a run at which it writes metrics, relative to the time before.
# After half an hour they become fewer: a week has 12,000 instead of 600,000,
# of which TensorBoard shows 1,000.
_METRICS_SPACING = 1.0 + 1.0 / 1_800


class RunControl(control_service.ControlService):
  """Counts a run's steps, enforces its limits, and makes its nodes' commands.

  The object also writes the run's results, and is thread-safe. It is part of
  the launcher, and methods without a description are those of `ControlService`,
  by which other processes call it.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    folder: run_folder.RunFolder,
    expected: Mapping[str, int],
    started_at_s: float,
    rates: rates_lib.Rates,
    workers_fixed_because: str = "",
    earlier: run_state.Earlier | None = None,
  ):
    """Opens the run's result files, and reads the snapshot of a resumed run.

    Args:
      expected: number of nodes of each role that will report.
      started_at_s: unix seconds of the user's command.
      workers_fixed_because: message of the error that `set_workers` raises, or
        an empty text if the number of workers can change.
      earlier: what the run had reached when it lost a state, or None at a start
        by a command.

    Raises:
      ValueError: a file of the run cannot be read.
    """
    self._workers_fixed_because = workers_fixed_because
    self._has_table = rates.table is not None
    self._shards = rates.table.shards if rates.table is not None else 1
    self._lock = threading.RLock()
    self._reported = threading.Condition(self._lock)
    self._config = config.copy_and_resolve_references()
    evaluations = env_steps = None
    trainer_steps = float("inf")
    snapshot = snapshot_store.open_store(config, folder).newest()
    resumed = snapshot and run_counters.RunCounters.read(snapshot.path)
    if resumed:
      evaluations = resumed.status.evaluation.count
      env_steps = resumed.status.env_steps
      trainer_steps = resumed.status.trainer_steps
    # Number of the newest snapshot for which the hooks were called.
    self._snapshot = snapshot.number if snapshot else 0
    # What users want, from which each node's command is made: the steps per
    # second are those of all workers together.
    self._wanted = messages.Command(
      paused=earlier is not None and earlier.status.phase == "paused",
      steps_per_s=config.rates.environment_steps_per_s,
      workers=expected.get("worker", 0),
    )
    self._state = run_state.RunState(
      self._config,
      rates,
      folder.name,
      expected,
      started_at_s,
      resumed or None,
      earlier,
    )
    self._nodes = self._state.nodes
    self._changes: dict[str, typing.Any] = {}  # by users, of config fields
    self._stopped_because: str | None = None
    self._stops_quickly = False
    self._first_failures: Mapping[str, str] = {}  # by role
    self._results = results_lib.Results(
      folder, evaluations, env_steps, trainer_steps
    )
    self._watchdog = watchdog_lib.Watchdog(self._config, rates)
    # By node group; empty on a single machine.
    self._machines: Mapping[str, run_status.MachineStatus] = {}
    self._monitors: Mapping[str, machine_usage.MachineUsage] = {}
    self._profiles: dict[str, sampling.Profile] = {}  # by name
    self._samples_per_s, self._sampling_end_s = 0.0, 0.0  # monotonic
    self._closed = False
    self._update_due_s = 0.0  # monotonic
    self._metrics_due_s = 0.0  # of the run's duration
    self._hooks = (earlier and earlier.hooks) or caller.Caller(
      self._config, folder.path
    )
    self._hooks.stop_run = self.stop
    self._results.write_config(self._config)
    self._hooks.send("start", self.status)

  @property
  def limits(self) -> ml_collections.ConfigDict:
    """Section `limits` of the config; the caller must not change it."""
    return self._config.limits

  def report(
    self, role: str, index: int, report: messages.Report
  ) -> messages.Command:
    with self._lock:
      self._record(role, index, report, finished=False)
      return self.command(role, index)

  def finished(self, role: str, index: int, report: messages.Report) -> None:
    with self._lock:
      self._record(role, index, report, finished=True)

  def command(self, role: str, index: int) -> messages.Command:
    """Returns the current command for a node."""
    with self._lock:
      wanted, share = self._wanted, 0.0
      is_external = role == messages.EXTERNAL
      if role == "worker":  # one without a proxy
        share = 1.0 / max(1, wanted.workers)
      elif role == "proxy":
        share = self._nodes.compute_proxy_share(index)
      return msgspec.structs.replace(
        wanted,
        stop=self.stopping and is_external,
        steps_per_s=share * wanted.steps_per_s,
        collected_version=self._nodes.collected_version(),
        last_snapshot_s=stages.last_snapshot_s(self._stops_quickly),
        samples_per_s=0.0 if is_external else self._read_sampling_rate(),
      )

  def register(self, role: str, index: int) -> messages.Registration:
    with self._lock:
      return self._nodes.registration(role, index)

  def wait_collected(self, version: int, timeout_s: float) -> int:
    with self._reported:
      self._reported.wait_for(
        lambda: self.stopping or self._nodes.collected_version() >= version,
        min(timeout_s, _LONGEST_WAIT_S),
      )
      return self._nodes.collected_version()

  def counters(self) -> run_counters.RunCounters:
    with self._lock:
      return self._state.counters()

  def variables_version(self) -> int:
    with self._lock:
      return self._state.variables_version()

  def evaluated(
    self, evaluation: messages.Evaluation
  ) -> messages.EvaluationReply:
    with self._lock:
      if self._closed or self._stopped_because in base.EVALUATION_LIMITS:
        return messages.EvaluationReply()
      row = results_lib.make_evaluation(
        self._state.status(),
        evaluation.returns,
        evaluation.lengths,
        evaluation.variables_version,
        evaluation.info,
      )
      is_best = self._state.evaluations.add(row, evaluation.repeated)
      self._results.add_evaluation(row)
      self._hooks.send("evaluation", self.status)
      return messages.EvaluationReply(
        is_best, self._state.evaluations.best_return
      )

  def sample(self, seconds: float, per_s: float, is_first: bool) -> None:
    with self._lock:
      self._check_not_stopping()
      if is_first and self._read_sampling_rate():
        raise ValueError(
          "another `slipway profile` of the run is in progress, or was killed "
          f"just now: try again when it has ended, or in {_SAMPLING_S:.0f} s"
        )
      self._profiles = {}
      self._samples_per_s = per_s
      self._sampling_end_s = time.monotonic() + min(seconds, _SAMPLING_S)
      sampling.start(
        self._read_sampling_rate,
        lambda profile: self._add_profile("launcher", profile),
      )

  def get_profile(self, name: str) -> sampling.Profile | None:
    with self._reported:
      self._reported.wait_for(lambda: name in self._profiles, _SAMPLING_S)
      return self._profiles.get(name)

  def stop(self, reason: str) -> None:
    with self._lock:
      self._stops_quickly |= reason in _QUICK_REASONS
      if self.stopping:
        return
      self._stopped_because = reason
      logging.info("stopping: %s", reason)
      # The trainer continues until its stage ends, so that a full table accepts
      # the workers' last items.
      self._want(paused=False)
      self._reported.notify_all()

  def pause(self) -> None:
    with self._lock:
      self._check_not_stopping()
      self._want(paused=True)
      self._state.clear_rates()

  def resume(self) -> None:
    with self._lock:
      self._check_not_stopping()
      self._want(paused=False)

  def save(self) -> None:
    with self._lock:
      self._check_not_stopping()
      self._want(saves_requested=self._wanted.saves_requested + 1)

  def set_workers(self, count: int) -> None:
    with self._lock:
      self._check_not_stopping()
      if self._machines:
        raise ValueError(
          "the number of workers of this run follows from its machines, so it "
          "can't be set: add machines to the cluster, or remove some"
        )
      if self._workers_fixed_because:
        raise ValueError(self._workers_fixed_because)
      self._check_has_workers(count)
      base.check_workers(count)
      if count < self._shards:
        raise ValueError(
          f"workers {count} is below config.replay.shards={self._shards}: each "
          "worker writes to one shard, so some shards would get no new items; "
          f"use {self._shards} or more"
        )
      logging.info("the number of workers is %d now", count)
      self._nodes.set_expected("worker", count)
      self._want(workers=count)
      self._config.topology.workers = count
      self._changes["topology.workers"] = count

  def place(
    self,
    machines: Mapping[str, run_status.MachineStatus],
    expected: Mapping[str, int],
    absent: Sequence[tuple[str, int]],
  ) -> None:
    """Records on which machines the run's nodes are currently placed.

    Args:
      machines: state of each node group's machine, by the group's name.
      expected: number of nodes that the run should have, by role.
      absent: role and index of each node that currently has no machine.
    """
    with self._lock:
      if self.stopping:
        return
      self._machines = machines
      for role, count in expected.items():
        self._nodes.set_expected(role, count)
      self._nodes.set_absent(absent)
      self._want(workers=expected["worker"])
      self._config.topology.workers = expected["worker"]

  def set(self, field: str, value: float | str) -> None:
    with self._lock:
      self._check_not_stopping()
      changed = settings.change(self._config, field, value)
      logging.info("%s is %s now", field, changed)
      self._changes[field] = changed
      self._want(
        steps_per_s=self._config.rates.environment_steps_per_s,
        trainer_steps_limit=limits.last_trainer_step(self._config.limits),
      )

  def note_crew(
    self,
    first_failures: Mapping[str, str],
    monitors: Mapping[str, machine_usage.MachineUsage],
  ) -> None:
    """Records what the crew knows of nodes and machines, for the status.

    Args:
      first_failures: line about the first failure after which a node was
        restarted, by role.
      monitors: load of each machine, by its node group's name.
    """
    with self._lock:
      self._first_failures = dict(first_failures)
      self._monitors = dict(monitors)

  def status(self) -> run_status.RunStatus:
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
          status.rates, env_steps_per_s_target=self._wanted.steps_per_s
        ),
        workers_target=self._wanted.workers,
        machines=dict(self._machines),
        monitors=dict(self._monitors),
        unwritten=sorted({*status.unwritten, *outbox.unwritten()}),
        first_failures=self._first_failures,
        failed_hooks=self._hooks.failed,
        stopped_because=self._stopped_because,
      )

  def tick(self) -> None:
    """Checks limits, new snapshots and stalls; must be called regularly.

    The call also writes metrics, at most once per second, and less often later
    in a run.
    """
    with self._lock:
      now_s = time.monotonic()
      is_due = now_s >= self._update_due_s
      if is_due and self._wanted.paused:
        # Otherwise the rates, as means over some seconds, would decay slowly.
        self._state.clear_rates()
      elif is_due:
        self._state.update()
      status = self.status()
      self._check_limits(status)
      self._check_snapshot(status)
      working = status.phase in ("starting", "running")
      if self._watchdog.update(status, working, now_s):
        logging.warning("%s", self._explain_stall(status))
      if is_due:
        self._update_due_s = now_s + _METRICS_PERIOD_S
        if working:
          self._state.advise(status)
        if status.wall_s >= self._metrics_due_s:
          self._metrics_due_s = status.wall_s * _METRICS_SPACING
          self._results.add_metrics(status)
          outbox.flush()

  @property
  def stopping(self) -> bool:
    """Whether the run is stopping or has stopped."""
    return self._stopped_because is not None

  @property
  def stops_quickly(self) -> bool:
    """Whether the last snapshot may take only seconds.

    The nodes may be killed soon after a signal or a failure.
    """
    return self._stops_quickly

  @property
  def workers_target(self) -> int:
    """Number of workers that should run."""
    return self._wanted.workers

  def abandon(self) -> run_state.Earlier:
    """Ends the hooks of a run that is resumed, without its results.

    Returns:
      What the run has reached, of which the resumed one continues.
    """
    with self._lock:
      status = self.status()
      self._closed = True
      return run_state.Earlier(status, self._changes, self._hooks)

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

  def _want(self, **fields: typing.Any) -> None:
    """Changes fields of what users want, which nodes get with their reports."""
    self._wanted = msgspec.structs.replace(self._wanted, **fields)

  def _check_has_workers(self, count: int) -> None:
    """Checks that worker processes can collect for this run."""
    if not self._has_table:
      raise ValueError(
        f"workers {count} can't collect for this run, which learns from "
        "recorded data only: it keeps 0 workers"
      )
    if self._config.environment.external:
      raise ValueError(
        f"workers {count} can't step the environment of this run, since "
        "config.environment.external=True: connect more external processes "
        "instead"
      )

  def _check_not_stopping(self) -> None:
    """Raises ValueError if a user's command can't have an effect any more."""
    if self.stopping:
      raise ValueError(
        f"the run is stopping ({self._stopped_because}), so nothing changes"
      )

  def _record(
    self, role: str, index: int, report: messages.Report, finished: bool
  ) -> None:
    """Records a node's report, and wakes the callers of `wait_collected`."""
    if report.profile is not None:
      self._add_profile(f"{role}/{index}", report.profile)
    self._state.report(role, index, report, finished)
    self._reported.notify_all()

  def _add_profile(self, name: str, profile: sampling.Profile) -> None:
    """Records a process's profile, and wakes the callers of `get_profile`."""
    with self._lock:
      self._profiles[name] = profile
      self._reported.notify_all()

  def _read_sampling_rate(self) -> float:
    """Returns the samples of stacks per second; 0 if there is no profile."""
    is_over = time.monotonic() > self._sampling_end_s
    return 0.0 if is_over else self._samples_per_s

  def _explain_stall(self, status: run_status.RunStatus) -> str:
    """Returns one line about the cause of a stall; see `Watchdog.explain`."""
    return self._watchdog.explain(
      status,
      self._nodes.find_silent_nodes(),
      # A long evaluation delays no other node.
      self._nodes.describe_waits(ignored=[waits.EPISODES]),
    )

  def _check_limits(self, status: run_status.RunStatus) -> None:
    """Stops the run if it has reached its limits."""
    evaluations = self._state.evaluations
    counts = limits.Counts.from_status(
      status, self._config.limits, evaluations.returns, evaluations.infos
    )
    reason = limits.find_reason(self._config.limits, counts)
    if reason is not None:
      self.stop(reason)

  def _check_snapshot(self, status: run_status.RunStatus) -> None:
    """Sends the event 'snapshot' to the hooks, once per new snapshot."""
    if status.snapshots.written > self._snapshot:
      self._snapshot = status.snapshots.written
      self._hooks.send("snapshot", self.status)

  def _phase(self, status: run_status.RunStatus) -> str:
    """Returns the run's phase, such as 'running'; see `RunStatus.phase`."""
    if self._closed:
      return "stopped"
    if self.stopping:
      return "stopping"
    if self._wanted.paused:
      return "paused"
    return "starting" if status.start_up_s is None else "running"
