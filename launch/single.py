"""One process, no servers: the same experiment, equal to the bit for a seed.

Reverb draws from unseeded generators in its server's threads, and processes
race. So here worker, trainer and evaluator take turns (`launch.turns`), and a
run that was stopped or killed and resumed equals one that never stopped.
"""

import math
import time
import typing

import ml_collections
import msgspec
from absl import logging
from acme import specs

from configs import sizes
from launch import turns
from launch.display import panel as panel_lib
from launch.nodes import pace
from launch.orchestration import messages, run_control
from launch.processes import signals as signals_lib
from launch.runs import (
  best_variables,
  run_folder,
  snapshot_store,
  snapshot_uploader,
  snapshots,
)
from launch.runs import run as run_lib
from replay import table_status

_REPORT_PERIOD_S = 0.25
_UPLOAD_S = 4.0  # for the last snapshot
# What is reached by counting ends the run only once all that was earned until
# then is done, so that equal runs end equally.
_COUNTED = ("environment_steps", "trainer_steps", "target_return")


class Single:
  """A run of one worker, one trainer and one evaluator, in turns."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    control: run_control.RunControl,
  ):
    """Makes all parts, or takes them from the newest snapshot if there is one.

    Args:
      config: the whole config; of its topology, only the environments count.
      spec: of one environment.
      folder: of the run.
      control: counts, limits and results.

    Raises:
      ValueError: one line: the snapshot does not fit the config.
      OSError: one line: where the run was can't be found out.
    """
    self._config, self._folder, self._control = config, folder, control
    self._uploader = snapshot_uploader.SnapshotUploader(
      snapshot_store.SnapshotStore.of(config, folder.name), config.snapshot.keep
    )
    self._snapshots = snapshots.Snapshots(
      folder.snapshots, config.snapshot.keep, self._uploader.in_use
    )
    newest = snapshot_store.newest_of(config, folder)
    self.turns = turns.Turns(config, spec, newest and newest.path)
    self._snapshot = messages.SnapshotReport(newest.number if newest else 0)
    self._saves = 0  # that were asked for and are done
    self._best_is_new = False  # since the last snapshot
    self._save_due_s = time.monotonic() + config.snapshot.period_s
    self._pace = pace.Pace()
    self._steps_per_s = config.rates.environment_steps_per_s
    self._first_step_at_s: float | None = None
    self._report_due_s = 0.0
    self._stop_now = self._stop = self._save_now = False

  def run(
    self, show: typing.Callable[[], None], signals: signals_lib.Signals
  ) -> None:
    """Runs until a limit or a signal, and saves.

    Args:
      show: called a few times a second.
      signals: that ask this process for something.

    Raises:
      RuntimeError: one line: the last snapshot could not be written.
    """
    self._show, self._signals = show, signals
    while not self._ends():
      due = self.turns.due
      if due is turns.Turn.EVALUATION:
        self._evaluate()
      elif due is turns.Turn.UPDATE:
        self.turns.update()
        self._first_step_at_s = self._first_step_at_s or time.time()
      else:
        self._collect()
      if self._save_now or time.monotonic() >= self._save_due_s:
        try:
          self.save()
        except OSError as error:
          logging.warning("no snapshot: %s; the older ones are kept", error)
    try:
      self.save()
    except OSError as error:
      raise RuntimeError(f"the last snapshot is missing: {error}") from error
    finally:
      self.turns.close()
    if not self._uploader.wait(_UPLOAD_S):
      logging.warning(
        "the last snapshot was not uploaded within %.0f s; the one before "
        "counts for other machines",
        _UPLOAD_S,
      )

  def save(self) -> None:
    """Writes a snapshot.

    Raises:
      OSError: the disk refuses.
    """
    began_s = time.monotonic()
    self._save_now = False
    self._save_due_s = began_s + self._config.snapshot.period_s
    self.report()
    with self._snapshots.writing(self.turns.trainer_steps) as path:
      self.turns.save(path)
      self._control.counters().write(path)
    if self._best_is_new:
      self._snapshots.mark_best()
    assert self._snapshots.written is not None
    self._uploader.offer(self._snapshots.written, self._best_is_new)
    self._best_is_new = False
    self._snapshot = messages.SnapshotReport(
      self._snapshot.written + 1, time.time(), time.monotonic() - began_s
    )

  def report(self) -> None:
    """Reports as the nodes would, and takes what is asked of them."""
    table = self.turns.table
    counts = table_status.TableStatus.of(
      table.size,
      table.inserted,
      table.sampled,
      sizes.Sizes.of(self._config).min_size,
    )
    report = messages.TrainerReport(
      trainer_steps=self.turns.trainer_steps,
      first_step_at_s=self._first_step_at_s,
      variables_version=self.turns.version,
      metrics={k: float(v) for k, v in self.turns.metrics.items()},
      replay=messages.TableCounts(*counts),
      snapshots=msgspec.structs.replace(
        self._snapshot,
        uploaded=self._uploader.uploaded,
        upload_failures=self._uploader.failures,
      ),
    )
    command = self._control.report("trainer", 0, report)
    if command.saves_requested != self._saves:
      self._saves, self._save_now = command.saves_requested, True
    self._control.report("worker", 0, self.turns.worker)

  def _ends(self) -> bool:
    """Whether the run ends here.

    Limits of steps are exact; for the rest it is looked up now and then what
    the control says, which takes as long as a step.
    """
    resting = self.turns.due is turns.Turn.COLLECTION
    if time.monotonic() >= self._report_due_s or (
      resting and self._has_steps_enough()
    ):
      self._look()
    return self._stop_now or (resting and self._stop)

  def _has_steps_enough(self) -> bool:
    limits = self._config.limits
    return self.turns.env_steps >= (
      limits.environment_steps or math.inf
    ) or self.turns.trainer_steps >= (limits.trainer_steps or math.inf)

  def _look(self) -> None:
    """Reports, shows, and finds out what is asked of the run."""
    if self._signals.snapshot_asked:
      self._signals.snapshot_asked = False
      self._control.save()
    if self._signals.first is not None:
      self._control.stop(self._signals.first.name)
      self._stop_now = True
    self.report()
    self._control.tick()
    reason = self._control.status().stopped_because
    self._stop = reason is not None
    self._stop_now |= self._stop and reason not in _COUNTED
    self._show()
    self._report_due_s = time.monotonic() + _REPORT_PERIOD_S

  def _interrupted(self) -> bool:
    """Whether the run is to end in the middle of an evaluation."""
    if time.monotonic() >= self._report_due_s:
      self._look()
    return self._stop_now

  def _collect(self) -> None:
    """A step of all environments, or a short wait if there can be none yet."""
    wait_s = self._pace.wait_s(self._steps_per_s, time.monotonic())
    if wait_s > 0:
      time.sleep(min(wait_s, _REPORT_PERIOD_S))
      return
    steps = self.turns.collect()
    self._pace.stepped(steps, self._steps_per_s, time.monotonic())

  def _evaluate(self) -> None:
    episodes = self.turns.evaluate(self._interrupted)
    if episodes is None:
      return
    self.report()  # of now are the counts beside it
    if self._control.evaluated(
      messages.Evaluation(*episodes, self.turns.version)
    ):
      best_variables.save(
        self._folder.best, self.turns.version, self.turns.variables
      )
      self._best_is_new = True
    self._report_due_s = 0.0  # it may have reached the limit


def launch(run: run_lib.Run, signals: signals_lib.Signals) -> None:
  """Runs a config in this process, to its end.

  Args:
    run: what to run.
    signals: that this process takes.

  Raises:
    RuntimeError: the snapshot is of no use, or none could be written; one line.
    KeyboardInterrupt: Ctrl-C came twice.
  """
  control = run_control.RunControl(
    run.config, run.folder, {"worker": 1, "trainer": 1}, run.started_at_s
  )
  try:
    single = Single(run.config, run.spec, run.folder, control)
  except (ValueError, OSError) as error:
    raise RuntimeError(str(error)) from error
  with panel_lib.Panel() as panel:
    single.run(lambda: panel.update(control.status()), signals)
    single.report()
    control.close()
    panel.update(control.status())
