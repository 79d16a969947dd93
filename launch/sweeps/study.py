"""Study: the folder of a sweep, whose memory is a study of Optuna.

    runs/NAME/journal.log   the plan; the settings, their states and scores
    runs/NAME/0.json        the config of setting 0, but for the seed
    runs/NAME/0-1/          the run of setting 0 with seed 1
    runs/NAME/0-1.log       its output
    runs/NAME/runs.csv, settings.csv, sweep.png    results

A setting is a trial of the study. It is running until all its seeds have ended
at a limit, and then complete, with the mean of their scores; or it is pruned;
or it has failed, since no config can be made from it.
"""

import contextlib
import math
import os
import pathlib
import shutil
import statistics
import typing
from collections.abc import Mapping, Sequence

import ml_collections
import msgspec
import optuna
from optuna.storages import journal

from slipway.configs import fields
from slipway.launch.runs import config_file, run_folder, run_lock
from slipway.launch.sweeps import plan as plan_lib
from slipway.launch.sweeps import runs, space

_JOURNAL = "journal.log"
_NAME = "sweep"  # of the study in its journal
_PLAN = "plan"  # attribute of the study
_ERROR = "error"  # attribute of a trial
# Seconds within which the runs of a killed sweep have saved themselves.
_END_TIMEOUT_S = 30.0
# Seconds after which the journal's lock is that of a killed sweep.
_LOCK_TIMEOUT_S = 5
_States = optuna.trial.TrialState


class Study:
  """A sweep's folder and memory, which one process at a time can open.

  Methods that write raise OSError if the disk is full, and can be called again.

  Attributes:
    path: absolute path of the folder, which stays valid in other folders.
    plan: what the sweep trains.
  """

  def __init__(self, path: pathlib.Path, plan: plan_lib.Plan | None):
    """Makes a study with a plan, or opens the one in a folder."""
    self.path = path
    self._storage = journal.JournalStorage(_Journal(path / _JOURNAL))
    self._pruner = optuna.pruners.MedianPruner()
    if plan is None:
      self._study = optuna.load_study(study_name=_NAME, storage=self._storage)
      plan = msgspec.convert(self._study.user_attrs[_PLAN], plan_lib.Plan)
    else:
      self._study = optuna.create_study(
        study_name=_NAME, storage=self._storage, direction="maximize"
      )
    self.plan = plan

  @classmethod
  def create(
    cls,
    path: pathlib.Path,
    overwrite: bool,
    plan: plan_lib.Plan,
    resources: contextlib.ExitStack,
  ) -> "Study":
    """Makes the folder of a new sweep, or uses an empty one, and locks it.

    With `overwrite`, an older sweep is deleted with all its runs, once they
    have ended. Any other folder is never deleted.

    Raises:
      ValueError: the name or the path is invalid, the folder exists or can't be
        made, or one of its runs is still active after 30 s.
    """
    path = path.absolute()
    run_folder.check_name(path.name)
    run_folder.check_path(path)
    shown = f"sweep folder {str(path)!r}"
    try:
      if path.exists() and not run_folder.is_empty(path):
        if path.is_symlink() or not (path / _JOURNAL).is_file():
          raise ValueError(
            f"{shown} exists but is no sweep, so it is not overwritten: choose "
            "another --name"
          )
        if not overwrite:
          raise ValueError(
            f"{shown} exists: choose another --name, continue it with "
            "--resume, or give --overwrite, which deletes it with all its runs"
          )
        with _locked(path):
          for config in path.glob(f"*/{run_folder.CONFIG}"):
            run = run_folder.RunFolder(config.parent)
            run_lock.wait_until_free(run, _END_TIMEOUT_S)
          shutil.rmtree(path)
      run_folder.make_private(path)
      resources.enter_context(_locked(path))
      return cls(path, plan)
    except OSError as error:
      raise ValueError(
        f"{shown} can't be made ({error.strerror or error}): choose another "
        "--name or --run_dir"
      ) from error

  @classmethod
  def open(cls, text: str, resources: contextlib.ExitStack) -> "Study":
    """Returns the existing sweep in a folder, and locks it.

    Raises:
      ValueError: there is no sweep, it belongs to another user, another process
        trains it, or it can't be read.
    """
    path = run_folder.expand(text).absolute()
    if not (path / _JOURNAL).is_file():
      raise ValueError(
        f"{text!r} has no {_JOURNAL}, so it is not a sweep: give the folder "
        "that `slipway sweep` has made"
      )
    for own in (path, path / _JOURNAL):
      run_folder.check_owner(own, "copy it to a folder of your own")
    resources.enter_context(_locked(path))
    try:
      return cls(path, None)
    except (OSError, ValueError, LookupError) as error:
      raise ValueError(
        f"{str(path / _JOURNAL)!r} can't be read ({error!r}), so the sweep "
        "can't be resumed: restore the file, or begin a new sweep"
      ) from error

  @property
  def trials(self) -> Sequence[optuna.trial.FrozenTrial]:
    """The settings so far, as trials of Optuna, which must not be changed."""
    return self._study.get_trials(deepcopy=False)

  @property
  def settings(self) -> list[space.Setting]:
    """The settings so far."""
    axes = self.plan.axes
    return [space.to_setting(axes, trial.params) for trial in self.trials]

  def read_configs(self) -> dict[int, ml_collections.ConfigDict]:
    """Returns the configs of settings that can be trained, by their index.

    Raises:
      ValueError: a config can't be read.
    """
    return {
      trial.number: config_file.read(self.path / f"{trial.number}.json")
      for trial in self.trials
      if trial.state != _States.FAIL
    }

  def is_pruned(self, index: int) -> bool:
    """Returns whether a setting was stopped early."""
    return self.trials[index].state == _States.PRUNED

  def list_errors(self) -> list[str]:
    """Returns why settings can't be trained, a line for each."""
    attributes = [trial.user_attrs for trial in self.trials]
    return [x[_ERROR] for x in attributes if _ERROR in x]

  def list_runs(self, index: int) -> list[runs.SweepRun]:
    """Returns the runs of a setting, whether they have begun or not."""
    return [runs.SweepRun(self.path, index, seed) for seed in self.plan.seeds]

  def list_trained(self) -> list[runs.SweepRun]:
    """Returns the runs of all settings that are neither pruned nor failed."""
    trained = (_States.RUNNING, _States.COMPLETE)
    numbers = [x.number for x in self.trials if x.state in trained]
    return [run for number in numbers for run in self.list_runs(number)]

  def write_plan(self) -> None:
    """Writes the plan, which may have changed."""
    self._study.set_user_attr(_PLAN, msgspec.to_builtins(self.plan))

  def add(
    self, params: space.Params, config: ml_collections.ConfigDict | str
  ) -> None:
    """Adds a setting, with its runs' config or why it can't be trained."""
    state, attributes = _States.RUNNING, {}
    if isinstance(config, str):
      state, attributes = _States.FAIL, {_ERROR: config}
    else:
      if url := config.snapshot.url:
        # The runs of all sweeps have the same names, such as 0-1.
        own = f"{url.rstrip('/')}/{self.path.name}"
        config = fields.replace(config, "snapshot.url", own)
      name = f"{len(self.trials)}.json"
      self.write(name, config_file.to_json(config).encode())
    self._study.add_trial(
      optuna.trial.create_trial(
        state=state,
        params=params,
        distributions=space.to_distributions(self.plan.axes),
        user_attrs=attributes,
      )
    )

  def complete_settings(self, scores: Mapping[runs.SweepRun, float]) -> None:
    """Completes settings whose runs all have a score; runs may follow later."""
    for trial in self.trials:
      own = [scores.get(x, math.nan) for x in self.list_runs(trial.number)]
      if not trial.state.is_finished() and all(map(math.isfinite, own)):
        self._study.tell(trial.number, statistics.fmean(own))

  def prune_if_behind(self, index: int, step: int, score: float) -> bool:
    """Reports a score at a step; ends a setting early that falls behind.

    It does if its best score so far is below the median, at this step, of at
    least five complete settings. Only the first score at a step counts.

    Returns:
      Whether this score has ended the setting.
    """
    trial = self.trials[index]
    if trial.state.is_finished() or step in trial.intermediate_values:
      return False
    # `Trial.report` needs a trial of this process.
    study_id = self._storage.get_study_id_from_name(_NAME)
    find_id = self._storage.get_trial_id_from_study_id_trial_number
    trial_id = find_id(study_id, index)
    self._storage.set_trial_intermediate_value(trial_id, step, score)
    if not self._pruner.prune(self._study, self.trials[index]):
      return False
    self._study.tell(index, state=_States.PRUNED)
    return True

  def write(self, name: str, content: bytes) -> None:
    """Writes a file of the sweep, which is replaced atomically."""
    path = self.path / name
    with run_folder.writing(path), run_folder.replacing(path) as temporary:
      temporary.write_bytes(content)


class _Journal(journal.JournalFileBackend):
  """A journal without half-written lines, of a kill or of a full disk."""

  def __init__(self, path: pathlib.Path):
    # A lock that works on a shared folder, too.
    lock = journal.JournalFileOpenLock(str(path), _LOCK_TIMEOUT_S)
    super().__init__(str(path), lock)
    self._path = path
    os.truncate(path, path.read_bytes().rfind(b"\n") + 1)

  def append_logs(self, logs: list[dict[str, typing.Any]]) -> None:
    size = self._path.stat().st_size
    with run_folder.writing(self._path):
      try:
        super().append_logs(logs)
      except OSError:
        os.truncate(self._path, size)
        raise


def _locked(path: pathlib.Path) -> contextlib.AbstractContextManager[None]:
  """Returns a context that excludes other processes from a sweep."""
  return run_lock.held(run_folder.RunFolder(path), "sweep")
