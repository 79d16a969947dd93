"""The control node: counts, limits, and the order of stopping."""

import math
import os
import pathlib
import pickle
import shutil
import threading
import time
import typing
from collections.abc import Mapping, Sequence

import launchpad as lp
import ml_collections
from absl import logging

from configs import base
from launch.orchestration import directive as directive_lib
from launch.orchestration import ledger as ledger_lib
from launch.orchestration import settings, stop_order, waits
from launch.orchestration import watchdog as watchdog_lib
from launch.runs import results as results_lib
from launch.runs import run_address, run_counters, run_folder, snapshot_store

# Where one node has failed, another that is silent for so long has too.
_SILENT_AFTER_S = 2.0
_TICK_S = 0.05
# A node that is still importing when the run stops has so long to come up; one
# that died before it ever reported never does.
_STARTS_WITHIN_S = 15.0
# Nodes report four times a second, but one may have died meanwhile. Below the
# time after which they give a call up.
_CATCHES_UP_WITHIN_S = 2.0
_METRICS_PERIOD_S = 1.0  # also of keeping what a successor needs
_RELEASED_WITHIN_S = 1.5  # for the launcher to see the last status
_COUNTED_BY = {
  "environment_steps": "env_steps",
  "trainer_steps": "trainer_steps",
  "wall_clock_s": "wall_s",
}


class Control:
  """Counts steps, enforces limits, stops the run in order, writes results.

  Its public methods are called by Courier, from other threads than `run`; in
  a single process, directly.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    folder: run_folder.RunFolder,
    expected: Mapping[str, int],
    started_at_s: float,
    launcher_pid: int | None = None,
    memory_dir: str | None = None,
    address: lp.Address | None = None,
  ):
    """Opens the run's result files.

    Args:
      config: the whole config.
      folder: of the run.
      expected: how many nodes of each role will report.
      started_at_s: unix seconds of the user's command.
      launcher_pid: process that the run ends with; None: it is not looked for.
      memory_dir: folder of the run, with what this node's predecessor knew if
        it was killed; it is removed in the launcher's stead.
      address: that this node serves, for `launch.control`; None: none.
    """
    self._folder, self._address = folder, address
    self._memory_dir = memory_dir
    # Its parent is the launcher's fork server, which ends with the launcher.
    own = launcher_pid in (None, os.getpid())
    self._parent_pid = None if own else os.getppid()
    # Its settings change while the run goes on; the caller's do not.
    self._config = config = config.copy_and_resolve_references()
    self._lock = threading.RLock()
    self._stopped_because: str | None = None
    # Monotonic: when the stop was asked for, and from when its graces count.
    self._asked_at_s = self._stopped_at_s = 0.0
    self._recalled_at_s = -math.inf  # monotonic, of going on for another
    self._memory = memory_dir and pathlib.Path(memory_dir, "control")
    if self._memory and self._memory.exists():
      self._recall(self._memory)
      self._results = results_lib.Results(folder)
    else:
      resumed = _resumed(config, folder)
      self._ledger = ledger_lib.Ledger(
        config, folder.name, expected, started_at_s, resumed
      )
      self._directives = directive_lib.Directives(
        expected, config.rates.environment_steps_per_s
      )
      self._results = results_lib.Results(
        folder,
        resumed and resumed.evaluations,
        resumed and resumed.environment_steps,
      )
    # By part of the run, where it is on machines.
    self._machines: Mapping[str, Mapping[str, typing.Any]] = {}
    self._watchdog = watchdog_lib.Watchdog(self._config)
    self._hurried = False  # a node failed, or nobody waits for the end
    self._closed = False
    self._released = threading.Event()
    self._metrics_due_s = 0.0

  def report(
    self, role: str, index: int, metrics: Mapping[str, typing.Any]
  ) -> tuple[typing.Any, ...]:
    """Takes a node's counts; returns what it should do now.

    Returns:
      A `directive.Directive` as the plain tuple that Courier carries.
    """
    with self._lock:
      self._ledger.report(role, index, metrics)
      if role == "trainer":  # who alone is told, so nobody else waits for it
        self._directives.collected_version = self._ledger.collected_version()
      return tuple(self._directives.to(role, index, self._may_stop(role)))

  def enlist(self, role: str, index: int) -> tuple[int, int]:
    """What a node that begins goes on from.

    Returns:
      How many processes were this node before, and their environment steps.
    """
    with self._lock:
      return self._ledger.lives(role, index)

  def counters(self) -> str:
    """What a snapshot keeps of the run: `run_counters.RunCounters` as JSON."""
    self._catch_up()
    with self._lock:
      return self._ledger.counters().to_json()

  def variables_version(self) -> int:
    """The highest version of the variables that anything was told of."""
    with self._lock:
      return self._ledger.variables_version()

  def finished(
    self, role: str, index: int, metrics: Mapping[str, typing.Any]
  ) -> None:
    """Takes a node's last counts: it has ended."""
    with self._lock:
      self._ledger.report(role, index, metrics, finished=True)

  def evaluated(
    self,
    returns: Sequence[float],
    lengths: Sequence[int],
    variables_version: int,
  ) -> bool:
    """Takes one evaluation; returns whether it is the best so far.

    None follows the one that ended the run. Where something else ended it, the
    one that was under way counts: else equal runs would differ by when their
    end was seen.

    Args:
      returns: of its episodes, undiscounted.
      lengths: of its episodes, in environment steps.
      variables_version: that was played.
    """
    self._catch_up()
    with self._lock:
      if self._closed or self._stopped_because == "target_return":
        return False
      row = results_lib.evaluation_row(
        self._ledger.status(), returns, lengths, variables_version
      )
      best = self._ledger.add_evaluation(row)
      self._remember()  # a successor does not count it twice
      self._results.add_evaluation(row)
      return best

  def stop(self, reason: str) -> None:
    """Ends the run, in order; the first reason is the one that is kept."""
    with self._lock:
      if self._stopped_because is None:
        logging.info("stopping: %s", reason)
        # The trainer goes on until its turn, so that a full table takes what
        # the workers still have.
        self._directives.paused = False
        self._stopped_because = reason
        self._asked_at_s = self._stopped_at_s = time.monotonic()
        self._remember()

  def pause(self) -> str:
    """Lets no node make another step, until `resume`; limits stay in force.

    Returns:
      '', or why not: an error would cross Courier with all its traceback.
    """
    with self._lock:
      refusal = self._refusal()
      self._directives.paused = self._directives.paused or not refusal
      self._remember()
      return refusal

  def resume(self) -> str:
    """Lets the nodes go on after `pause`; answers like it."""
    with self._lock:
      self._directives.paused = False
      self._remember()
      return self._refusal()

  def save(self) -> str:
    """Asks for a snapshot now; answers like `pause`."""
    with self._lock:
      refusal = self._refusal()
      self._directives.saves += not refusal
      return refusal

  def workers(self, count: int) -> str:
    """Asks for so many workers; answers like `pause`."""
    with self._lock:
      refusal = self._refusal()
      if not refusal and self._machines:
        refusal = (
          "the workers of this run follow its machines, so they stay as many "
          "as they are: let machines join the cluster, or leave it"
        )
      if not refusal and self._parent_pid is None:
        refusal = (
          "all nodes of this run are threads of one process, so the workers "
          "stay as many as they are: launch it with --launch=local_mp"
        )
      if refusal:
        return refusal
      try:
        base.check_workers(count)
      except ValueError as error:
        return str(error)
      logging.info("workers are %d now", count)
      self._ledger.expect("worker", count)
      self._directives.workers = count
      self._config.topology.workers = count
      self._remember()
      return ""

  def place(
    self,
    machines: Mapping[str, Mapping[str, typing.Any]],
    expected: Mapping[str, int],
    absent: Sequence[Sequence[typing.Any]],
  ) -> None:
    """Takes which machines the run has now.

    Args:
      machines: by part of the run: its host, whether it is up, and how many
        strangers it has refused.
      expected: how many nodes of each role the run has.
      absent: role and index of those that have no machine now.
    """
    with self._lock:
      if self._stopped_because is not None:
        return
      self._machines = machines
      for role, count in expected.items():
        self._ledger.expect(role, count)
      self._ledger.miss([(role, index) for role, index in absent])
      missing = sum(role == "proxy" for role, _ in absent)
      self._directives.proxies = max(1, expected["proxy"] - missing)
      self._directives.workers = expected["worker"]
      self._config.topology.workers = expected["worker"]

  def set(self, field: str, value: float | str) -> str:
    """Changes a field of the config as the run goes on; answers like `pause`.

    Args:
      field: one of `settings.FIELDS`.
      value: a number, or its text.
    """
    with self._lock:
      refusal = self._refusal()
      if refusal:
        return refusal
      try:
        number = settings.change(self._config, field, value)
      except ValueError as error:
        return str(error)
      logging.info("%s is %s now", field, number)
      self._directives.steps_per_s = self._config.rates.environment_steps_per_s
      self._directives.trainer_steps = self._config.limits.trainer_steps
      self._remember()
      return ""

  def status(self) -> dict[str, typing.Any]:
    """All counts of the run, for the panel and the result files."""
    with self._lock:
      status = self._ledger.status()
      status["phase"] = self._phase(status)
      if status["phase"] == "paused":
        status["waiting"] = "paused"  # whoever waits does so for that
      elif self._watchdog.stalled_s is not None:
        status["waiting"] = self._why_stalled(status)
      status["stalled_s"] = self._watchdog.stalled_s
      status["environment_steps_per_s_asked"] = self._directives.steps_per_s
      status["workers_asked"] = self._directives.workers
      status["machines"] = self._machines
      status["stopped_because"] = self._stopped_because
      return status

  def release(self) -> None:
    """The launcher has seen the last status: nothing holds this node."""
    self._released.set()

  def run(self) -> None:
    """Watches the run until every node has ended, then writes its results."""
    address = self._address and self._address.resolve()
    with run_address.published(self._folder, address):
      self._watch()
      self.close()
      self._released.wait(_RELEASED_WITHIN_S)
    if self._launcher_is_lost() and self._memory_dir is not None:
      shutil.rmtree(self._memory_dir, ignore_errors=True)

  def _watch(self) -> None:
    program_stopped = lp.stop_event()
    while not self._all_finished():
      time.sleep(_TICK_S)
      self.tick()
      if program_stopped.is_set():  # a node has failed for good
        self.stop("failure")
        self._hurried = True
      if self._launcher_is_lost():
        self.stop("launcher_lost")
        self._hurried = True

  def tick(self) -> None:
    """Checks the limits, and now and then writes metrics."""
    with self._lock:
      status = self.status()
      self._check_limits(status)
      working = status["phase"] in ("starting", "running")
      now_s = time.monotonic()
      if self._watchdog.look(status, working, now_s):
        logging.warning("%s", self._why_stalled(status))
      may_start = now_s - self._asked_at_s < _STARTS_WITHIN_S
      if may_start and not self._hurried and not self._ledger.all_up():
        # A node that is still importing can't stop yet: its grace comes later.
        self._stopped_at_s = now_s
      if now_s >= self._metrics_due_s:
        self._metrics_due_s = now_s + _METRICS_PERIOD_S
        self._ledger.update_rates()
        self._results.add_metrics(self.status())
        self._remember()

  def close(self) -> None:
    """Writes what is written once, at the end."""
    with self._lock:
      self._closed = True
      status = self.status()
      self._results.add_metrics(status)
      self._results.write_summary(status)
      self._results.draw_curves()
      self._results.close()

  def _remember(self) -> None:
    """Keeps all that a successor needs to go on in this node's place."""
    if not self._memory:
      return
    state = (
      self._ledger,
      self._directives,
      self._config,
      self._stopped_because,
      self._asked_at_s,
      self._stopped_at_s,
    )
    beside = self._memory.with_suffix(".new")
    beside.write_bytes(pickle.dumps(state))
    os.replace(beside, self._memory)

  def _recall(self, memory: pathlib.Path) -> None:
    logging.info("goes on where the control node before was killed")
    (
      self._ledger,
      self._directives,
      self._config,
      self._stopped_because,
      self._asked_at_s,
      self._stopped_at_s,
    ) = pickle.loads(memory.read_bytes())
    self._recalled_at_s = time.monotonic()
    self._ledger.count_restart("control", 0)

  def _catch_up(self) -> None:
    """Waits until all that was done while no control node was up is reported.

    What is written down in between would be of an earlier time than what was
    before.
    """
    end_s = self._recalled_at_s + _CATCHES_UP_WITHIN_S
    while time.monotonic() < end_s:
      with self._lock:
        if not self._ledger.unheard_since(self._recalled_at_s):
          return
      time.sleep(_TICK_S)

  def _launcher_is_lost(self) -> bool:
    return self._parent_pid is not None and os.getppid() != self._parent_pid

  def _refusal(self) -> str:
    """Why nothing can be asked of the run any more, or ''."""
    if self._stopped_because is None:
      return ""
    return f"the run is stopping ({self._stopped_because}), so nothing changes"

  def _why_stalled(self, status: Mapping[str, typing.Any]) -> str:
    return self._watchdog.say(
      status, self._ledger.silent(), self._ledger.waiting(but=waits.LIMITER)
    )

  def _check_limits(self, status: Mapping[str, typing.Any]) -> None:
    limits = self._config.limits
    for limit, count in _COUNTED_BY.items():
      if limits[limit] and status[count] >= limits[limit]:
        self.stop(limit)
    reached = status["eval_return"]
    if reached is not None and reached >= limits.target_return:
      self.stop("target_return")

  def _may_stop(self, role: str) -> bool:
    if self._stopped_because is None:
      return False
    waited_s = time.monotonic() - self._stopped_at_s
    return stop_order.may_stop(role, waited_s, self._ledger.finished)

  def _all_finished(self) -> bool:
    with self._lock:
      if self._stopped_because is None:
        return False
      waited_s = time.monotonic() - self._stopped_at_s
      # A node that failed never tells that it has ended: it falls silent.
      silent_s = _SILENT_AFTER_S if self._hurried else math.inf
      return waited_s > stop_order.LONGEST_S or all(
        self._ledger.finished(role, silent_s) for role in stop_order.ROLES
      )

  def _phase(self, status: Mapping[str, typing.Any]) -> str:
    if self._closed:
      return "stopped"
    if self._stopped_because is not None:
      return "stopping"
    if self._directives.paused:
      return "paused"
    return "starting" if status["start_up_s"] is None else "running"


def _resumed(
  config: ml_collections.ConfigDict, folder: run_folder.RunFolder
) -> run_counters.RunCounters | None:
  """How far the run had come that is resumed; None: it begins."""
  snapshot = snapshot_store.open_store(config, folder).newest()
  return snapshot and run_counters.RunCounters.read(snapshot.path)
