"""Search: chooses the settings of a sweep."""

import importlib.util
import typing
from collections.abc import Sequence

from slipway.launch.sweeps import space

# Random samples without a new setting, per setting of the search, after which
# there are no more. Of settings with equal probabilities, one is missed with a
# probability of at most e^-30.
_MAX_REPEATED = 30


class Search(typing.Protocol):
  """Chooses settings one after the other."""

  def ask(self, index: int) -> space.Setting | None:
    """Returns the setting with this index, or None if there are no more."""
    ...

  def tell(self, index: int, score: float | None) -> None:
    """Takes the score of a setting.

    Args:
      index: index of the setting.
      score: mean score over the setting's seeds, or None if none has one.
    """
    ...


def make(
  name: str,
  axes: Sequence[space.Axis],
  settings: int,
  seed: int,
  known: Sequence[space.Setting] = (),
) -> Search:
  """Returns the search with a name.

  Args:
    name: 'grid', 'random' or 'optuna'.
    axes: axes of the space.
    settings: number of settings of a random search or of Optuna.
    seed: seed of the search.
    known: the settings that a resumed search has chosen before.

  Raises:
    ValueError: the search can't use the axes, they have fewer settings than a
      random search is to choose, or its package is missing.
  """
  if name == "grid":
    return _Listed(space.make_grid(axes))
  if name == "random":
    return _Listed(_sample_settings(axes, settings, seed, known))
  return _Optuna(axes, settings, seed, known)


def _sample_settings(
  axes: Sequence[space.Axis],
  settings: int,
  seed: int,
  known: Sequence[space.Setting],
) -> list[space.Setting]:
  """Returns random settings, which differ from one another.

  Args:
    axes: axes of the space.
    settings: number of settings.
    seed: seed of the search.
    known: the first settings, which a resumed search has chosen before.

  Raises:
    ValueError: the axes have fewer settings.
  """
  chosen = list(known)
  found = {tuple(setting.items()) for setting in known}
  index = repeated = 0
  while len(chosen) < settings:
    setting = space.draw(axes, seed, index)
    index += 1
    repeated += 1
    if tuple(setting.items()) not in found:
      found.add(tuple(setting.items()))
      chosen.append(setting)
      repeated = 0
    elif repeated > _MAX_REPEATED * settings:
      raise ValueError(
        f"--settings={settings} is more than --vary has: only {len(found)} "
        "settings differ, so some would be trained twice: give "
        f"--settings={len(found)}, or more values"
      )
  return chosen


class _Listed:
  """A search whose settings are known at its start."""

  def __init__(self, settings: Sequence[space.Setting]):
    """Takes the settings in their order."""
    self._settings = settings

  def ask(self, index: int) -> space.Setting | None:
    """Returns the setting with this index, or None if there are no more."""
    return self._settings[index] if index < len(self._settings) else None

  def tell(self, index: int, score: float | None) -> None:
    """Does nothing: the scores do not change the settings."""


class _Optuna:
  """A search by Optuna's tree-structured Parzen estimator (TPE).

  Bergstra et al. 2011, "Algorithms for hyper-parameter optimization". The first
  10 settings are random.
  """

  def __init__(
    self,
    axes: Sequence[space.Axis],
    settings: int,
    seed: int,
    known: Sequence[space.Setting],
  ):
    """Makes a study in memory, with the settings that are known already.

    Args:
      axes: axes of the space.
      settings: number of settings.
      seed: seed of the sampler.
      known: the settings that a resumed search has chosen before.

    Raises:
      ValueError: Optuna is not installed.
    """
    if importlib.util.find_spec("optuna") is None:
      raise ValueError(
        "--search=optuna needs the package optuna, which is not installed: run "
        "pip install optuna, or give --search=random"
      )
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    self._axes, self._settings = axes, settings
    self._study = optuna.create_study(
      direction="maximize",
      # Running trials count as bad ones, so that parallel runs differ.
      # A resumed search does not draw the same settings again.
      sampler=optuna.samplers.TPESampler(
        seed=seed + len(known), constant_liar=True
      ),
    )
    self._failed = optuna.trial.TrialState.FAIL
    self._trials: dict[int, typing.Any] = {}
    for index, setting in enumerate(known):
      self._study.enqueue_trial(
        {
          name: value
          for axis_index, axis in enumerate(axes)
          for name, value in _to_parameters(axis_index, axis, setting).items()
        }
      )
      self.ask(index)

  def ask(self, index: int) -> space.Setting | None:
    """Returns the setting with this index, or None if there are no more."""
    if index >= self._settings:
      return None
    trial = self._trials.get(index)
    if trial is None:
      trial = self._trials[index] = self._study.ask()
    setting: space.Setting = {}
    for axis_index, axis in enumerate(self._axes):
      if isinstance(axis, space.Choices):
        name = _name_choices(axis_index)
        choice = trial.suggest_categorical(name, range(len(axis.values)))
        setting |= axis.at(choice)
      elif axis.is_integer:
        low, high = int(axis.low), int(axis.high)
        setting |= axis.to_setting(
          trial.suggest_int(axis.field, low, high, log=axis.is_log)
        )
      else:
        setting |= axis.to_setting(
          trial.suggest_float(axis.field, axis.low, axis.high, log=axis.is_log)
        )
    return setting

  def tell(self, index: int, score: float | None) -> None:
    """Reports the score of a setting to Optuna, or that it has none."""
    if score is None:
      self._study.tell(self._trials[index], state=self._failed)
    else:
      self._study.tell(self._trials[index], score)


def _name_choices(axis_index: int) -> str:
  """Returns the name of Optuna's parameter for an axis with a list of values.

  The parameter is the index of a value.
  """
  return f"axis {axis_index}"


def _to_parameters(
  axis_index: int, axis: space.Axis, setting: space.Setting
) -> dict[str, typing.Any]:
  """Returns the part of a setting that belongs to an axis, as Optuna has it."""
  if isinstance(axis, space.Choices):
    chosen = tuple(setting[name] for name in axis.fields)
    return {_name_choices(axis_index): axis.values.index(chosen)}
  number = int if axis.is_integer else float
  return {axis.field: number(setting[axis.field])}
