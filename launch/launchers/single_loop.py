"""Single loop: worker, trainer and evaluator in one thread, in a fixed order.

Reverb samples with unseeded generators in its server's threads, and processes
race. So mode 'single' runs the worker, the trainer and the evaluator of the
other modes in one thread, on a table of this process. Their order follows from
config and seed alone, and a resumed run equals one that never stopped.
"""

import math
import pathlib
import pickle
import time
import typing
from collections.abc import Callable

import ml_collections
import msgspec
import tensorflow as tf
from absl import logging

from slipway.agents import core, devices, registry, seeds
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import local_updates, recorded_updates
from slipway.configs import base, fields
from slipway.environments import saving, user_code
from slipway.launch.control import limits as limits_lib
from slipway.launch.control import messages, run_control, stages, waits
from slipway.launch.control import rates as rates_lib
from slipway.launch.nodes import evaluator as evaluator_lib
from slipway.launch.nodes import filming, local_ports
from slipway.launch.nodes import trainer as trainer_lib
from slipway.launch.nodes import worker as worker_lib
from slipway.launch.runs import checkpoints, snapshot_store
from slipway.launch.runs import run as run_lib
from slipway.replay.tables import limiter, local_table
from slipway.replay.variables import variable_packing

# Names in a snapshot's folder: the file with the state of the worker and the
# evaluator, and the folder with the table.
_STATE_FILE, _TABLE_FOLDER = "single.pkl", "table"
# Reasons to stop for which the run first completes all updates and evaluations
# that are due. So equal runs end equally.
_REASONS_TO_COMPLETE = ({*limits_lib.Counts._fields} - {"wall_clock_s"}) | {
  limits_lib.ALL_LIMITS
}
# Seconds after which the user is informed that the environments are tested.
_NOTICE_AFTER_S = 15.0
# Names of the limits that are checked at every step.
_STEP_LIMITS = ("environment_steps", "trainer_steps", "episodes")


class SingleLoop:
  """Loop of a run in mode 'single', with all components in one thread.

  The components are a worker, a trainer, an evaluator and the table.
  """

  def __init__(
    self,
    run: run_lib.Run,
    control: run_control.RunControl,
    should_stop: Callable[[], bool] = lambda: False,
  ):
    """Makes worker, trainer and evaluator, and restores the newest snapshot.

    In a new run, the environments are first stepped some hundred times, to test
    whether they can be saved.

    Args:
      run: the run to execute; of its topology, only the number of environments
        is used.
      control: records the run's counts and results, and enforces its limits.
      should_stop: function called at each step of that test; True stops it.

    Raises:
      ValueError: the snapshot does not fit the config.
      OSError: the snapshots can't be read.
    """
    tf.config.experimental.enable_op_determinism()
    config, spec = run.config, run.spec
    self._config, self._control = config, control
    builder = registry.make_builder(config.agent)
    table = core.make_collected_table(builder, config, spec)
    self._store = snapshot_store.open_store(config, run.folder)
    newest = self._store.newest()
    state = (
      pickle.loads((newest.path / _STATE_FILE).read_bytes()) if newest else None
    )
    self._restarts = state["restarts"] + 1 if state else 0
    # None if the test was stopped; a resumed run then repeats it.
    self._savable: bool | None = state and state.get("savable")
    has_environment = not config.environment.external
    if self._savable is None:
      self._savable = not has_environment or _test_saving(config, should_stop)
    self._rates = rates_lib.Rates(config, table)
    devices.check(config.learner.device)
    learner = self._learner = builder.make_learner(config, spec)
    checkpoints.start(learner, newest or None, config.learner.init_from)
    published = state["published"] if state else None
    self._variables = local_ports.LocalVariables(
      variable_packing.VersionedVariables(*published) if published else None
    )
    self._table = self._worker = None
    if table is None:
      self._updates: updates_core.Updates = recorded_updates.RecordedUpdates(
        learner, config, spec, builder, run.folder.path
      )
    else:
      self._table = local_table.make_table(table, seeds.for_table(config.seed))
      self._updates = local_updates.LocalUpdates(
        learner,
        table,
        self._table,
        self._rates.is_update_due,
        recorded_updates.make_sampler(
          *(learner, config, spec, builder, table.recorded),
          run.folder.path,
        ),
      )
      # A worker's exploration depends on the number of workers.
      alone = fields.replace(config, "topology.workers", 1)
      self._worker = worker_lib.Worker(
        alone,
        spec,
        builder,
        self._rates,
        0,
        local_ports.LocalSink(self._table),
        self._variables.make_source(),
        messages.Registration(self._restarts),
      )
    self._trainer = trainer_lib.Trainer(
      config,
      self._rates,
      learner,
      self._updates,
      self._variables,
      version=published[0] if published else None,
    )
    self._evaluator = None
    if has_environment:
      self._evaluator = evaluator_lib.Evaluator(
        config,
        spec,
        builder,
        self,
        run.folder.best,
        self._restarts,
        bool(self._savable),
      )
    self._filmer = filming.Filmer(config, run.folder)
    # Trainer steps at the last evaluation, or None before the first.
    self._evaluated_at: int | None = None
    self._env_steps_before = self._episodes_before = 0  # counts at the resume
    self._read_limits()
    if newest and state:
      self._restore(newest.path, state)
    elif self._savable is False:
      logging.warning(
        "%s cannot be saved during an episode: a resumed run continues with "
        "new episodes, so it does not equal one that never stopped",
        config.environment.name,
      )
    self._saves = 0  # number of users' requests for snapshots that were served
    # Whether there was a new best evaluation since the last snapshot.
    self._best_is_new = False
    self._pause_s: float | None = None  # of the last snapshot
    self._finishing_since_s: float | None = None  # monotonic
    self._evaluating_since_s: float | None = None  # monotonic
    self._save_due_s = time.monotonic() + config.snapshot.period_s
    self._report_due_s = 0.0
    self._trainer_command = messages.Command()
    self._command = messages.Command(
      steps_per_s=config.rates.environment_steps_per_s
    )
    # `_stop` first completes what is due; `_stop_now` does not.
    self._stop_now = self._stop = self._save_now = False

  def run(self) -> None:
    """Runs until the control stops the run, and then saves.

    Raises:
      RuntimeError: the last snapshot could not be written.
    """
    while not self._should_end():
      self.step(self._check_interrupted)
      if self._save_now or time.monotonic() >= self._save_due_s:
        try:
          self.save()
        except OSError as error:
          logging.warning("no snapshot: %s; the older ones are kept", error)
    try:
      self.save()
      self._wait_for_uploads()
    except OSError as error:
      raise RuntimeError(self._store.explain_loss(str(error))) from error
    finally:
      self._close()
    self.report()

  def step(self, interrupted: Callable[[], bool] = lambda: False) -> None:
    """Runs the next evaluation, update or batch step, whichever is due first.

    Args:
      interrupted: function that is called at each step of an evaluation; True
        stops the evaluation. If the environments can be saved, the next
        evaluation is as if this one had not begun.
    """
    if self._command.paused:
      time.sleep(messages.REPORT_PERIOD_S / 10)
      return
    before = self._trainer.steps
    if self._is_evaluation_due():
      self._evaluate(interrupted)
    elif (
      self._trainer.step(self._trainer_command) == before
      and self._worker is not None
    ):
      self._worker.step(self._command)

  def save(self) -> None:
    """Writes a snapshot of the run's complete state.

    Raises:
      OSError: the disk rejects the snapshot; older ones are kept.
    """
    started_s = time.monotonic()
    self._save_now = False
    self._save_due_s = started_s + self._config.snapshot.period_s
    self.report()
    with self._store.writing(is_best=self._best_is_new) as path:
      self._save_state(path)
    self._best_is_new = False
    self._pause_s = time.monotonic() - started_s

  def report(self) -> None:
    """Reports trainer and worker to the control, and stores its commands."""
    replay = self._updates.statuses()
    wait = waits.since(waits.LAST_SNAPSHOT, self._finishing_since_s)
    report = self._trainer.report()
    trainer = msgspec.structs.replace(
      report,
      wait=wait
      or report.wait
      or waits.since(waits.EVALUATION, self._evaluating_since_s),
      replay=replay[0] if replay else None,
      snapshots=msgspec.structs.replace(
        self._store.status(),
        pause_s=self._pause_s,
        finishing_s=wait and wait.waited_s,
      ),
    )
    self._read_limits()
    command = self._trainer_command = self._control.report(
      "trainer", 0, trainer
    )
    if command.saves_requested > self._saves:
      self._saves, self._save_now = command.saves_requested, True
    if self._worker is not None:
      command = self._control.report("worker", 0, self._worker.report())
    self._command = command

  def _read_limits(self) -> None:
    """Updates this object's copies of the limits, which users may change."""
    limits = self._control.limits
    self._last_trainer_step = limits_lib.last_trainer_step(limits)
    self._step_limits = [(n, limits[n]) for n in _STEP_LIMITS if limits[n]]

  def _evaluate(self, interrupted: Callable[[], bool]) -> None:
    """Evaluates the newest variables until done, or `interrupted` is True."""
    assert self._evaluator and self._variables.newest is not None
    steps = self._trainer.steps
    self._evaluating_since_s = time.monotonic()
    played = self._evaluator.evaluate(self._variables.newest, interrupted)
    self._evaluating_since_s = None
    if played is not None:
      self._filmer.film(self._variables.newest)
      self._evaluated_at = steps
      self._report_due_s = 0.0  # the evaluation may have reached a limit

  def evaluated(
    self, evaluation: messages.Evaluation
  ) -> messages.EvaluationReply:
    """Records an evaluation; is part of `evaluator.Control`."""
    self.report()  # the evaluation is recorded with current counts
    reply = self._control.evaluated(evaluation)
    self._best_is_new |= reply.is_best
    return reply

  def _should_end(self) -> bool:
    """Returns whether to end the run now, after a check of the limits."""
    # Limits on steps and episodes are checked at every step. The control is
    # asked several times a second, because this takes as long as a step.
    is_complete = self._is_complete()
    if time.monotonic() >= self._report_due_s or (
      is_complete and self._has_reached_step_limit()
    ):
      self._check_control()
    return self._stop_now or (self._stop and self._is_complete())

  def _is_complete(self) -> bool:
    """Returns whether neither an update nor an evaluation is due."""
    return not (self._is_update_due() or self._is_evaluation_due())

  def _is_update_due(self) -> bool:
    """Returns whether the table has items for an update within the limit."""
    last = self._last_trainer_step
    if self._table is None or (last and self._trainer.steps >= last):
      return False
    return self._rates.is_update_due(self._updates.statuses()[0])

  def _is_evaluation_due(self) -> bool:
    """Returns whether the period since the last evaluation has passed."""
    period = self._config.evaluation.period_steps
    if self._evaluator is None or period == 0:
      return False
    if self._trainer.steps // period > (self._evaluated_at or 0) // period:
      return True
    is_first = self._evaluated_at is None
    return self._stop and is_first and not self._is_update_due()

  def _has_reached_step_limit(self) -> bool:
    """Returns whether a limit on steps or episodes is reached."""
    counts = {
      "environment_steps": self._env_steps(),
      "trainer_steps": self._trainer.steps,
      "episodes": self._episodes(),
    }
    return any(counts[name] >= limit for name, limit in self._step_limits)

  def _env_steps(self) -> int:
    """Returns the run's environment steps, those before a resume included."""
    since_resume = self._worker.env_steps if self._worker is not None else 0
    return self._env_steps_before + since_resume

  def _episodes(self) -> int:
    """Returns the run's training episodes, those before a resume included."""
    since_resume = self._worker.episodes if self._worker is not None else 0
    return self._episodes_before + since_resume

  def _check_control(self) -> None:
    """Reports, and sets `_stop` and `_stop_now`, which the loop reads."""
    self.report()
    self._control.tick()  # so that the limits are exact
    reason = self._control.status().stopped_because
    self._stop = reason is not None
    self._stop_now = self._control.stops_quickly or (
      self._stop and reason not in _REASONS_TO_COMPLETE
    )
    self._report_due_s = time.monotonic() + messages.REPORT_PERIOD_S

  def _check_interrupted(self) -> bool:
    """Returns whether an evaluation must be interrupted to stop the run."""
    if time.monotonic() >= self._report_due_s:
      self._check_control()
    return self._stop_now

  def _save_state(self, folder: pathlib.Path) -> None:
    """Writes the complete state of the run to a snapshot's folder."""
    self._control.counters().write(folder)
    checkpoints.save(folder, self._learner)
    if self._table is not None:
      (folder / _TABLE_FOLDER).mkdir()
      self._table.save(folder / _TABLE_FOLDER)
    worker = self._worker
    state = {
      "restarts": self._restarts,
      "env_steps": self._env_steps(),
      "episodes": self._episodes(),
      "savable": self._savable,
      "evaluated_at": self._evaluated_at,
      "grants": self._rates.scheduled_ratio,
      "published": tuple(self._variables.newest or ()),
      "worker": worker.get_state(bool(self._savable)) if worker else None,
      "evaluator": self._evaluator and self._evaluator.get_state(),
    }
    (folder / _STATE_FILE).write_bytes(pickle.dumps(state))

  def _restore(
    self, folder: pathlib.Path, state: dict[str, typing.Any]
  ) -> None:
    """Restores counts, worker, evaluator and table from a snapshot."""
    self._evaluated_at = state["evaluated_at"]
    self._env_steps_before = state["env_steps"]
    self._episodes_before = state["episodes"]
    if self._evaluator is not None:
      self._evaluator.set_state(state["evaluator"])
    if self._worker is not None:
      self._worker.set_state(state["worker"])
    if self._table is None:
      return
    self._table.load(folder / _TABLE_FOLDER)
    has_changed = state["grants"] != self._rates.scheduled_ratio
    if has_changed and isinstance(self._table, local_table.LocalTable):
      # The resume has changed the ratio of samples to inserts. The count of
      # samples is set so that no update is due for the items in the table.
      ratio = self._rates.scheduled_ratio
      granted = limiter.count_granted(self._table.inserted, *ratio)
      self._table.sampled = max(0, math.ceil(granted))

  def _close(self) -> None:
    """Closes the environments, and logs their errors."""
    # All state is saved by now, and an earlier error must not be replaced.
    if self._worker is not None:
      _close_and_log_error(self._worker.close)
    if self._evaluator is not None:
      _close_and_log_error(self._evaluator.close)
    self._filmer.close()

  def _wait_for_uploads(self) -> None:
    """Waits for the last snapshot's upload, and reports the wait."""
    began_s = self._finishing_since_s = time.monotonic()

    def get_rest_s() -> float:
      self.report()
      timeout_s = stages.last_snapshot_s(self._control.stops_quickly)
      return began_s + timeout_s - time.monotonic()

    self._store.flush(get_rest_s)
    self._finishing_since_s = None


def _test_saving(
  config: ml_collections.ConfigDict, should_stop: Callable[[], bool]
) -> bool | None:
  """Tests whether environments can be saved, and logs if that takes long."""
  notice_due_s = time.monotonic() + _NOTICE_AFTER_S

  def check() -> bool:
    nonlocal notice_due_s
    if time.monotonic() > notice_due_s:
      notice_due_s = math.inf
      logging.warning(
        "%s is slow: before the run, it makes some hundred steps, to test "
        "whether snapshots can contain unfinished episodes",
        config.environment.name,
      )
    return should_stop()

  savable = saving.is_exact(config.environment, check)
  if savable and base.has_evaluation_environment(config):
    evaluated = base.get_evaluation_environment(config)
    savable = saving.is_exact(evaluated, check)
  return savable


def _close_and_log_error(close: Callable[[], None]) -> None:
  """Closes environments, and logs an error of theirs instead of raising it."""
  try:
    close()
  except user_code.UserCodeError as error:
    logging.warning("%s", error.line)
