"""Space: the config fields that a sweep varies, as distributions of Optuna.

An axis of the space is written like an override:

    learner.learning_rate=1e-4,3e-4,1e-3
    learner.learning_rate,learner.batch_size=1e-4,32;3e-4,64
    learner.learning_rate=log:1e-5..1e-2

The second one varies two fields together. The third one is a range, for
`--search=random` and `--search=tpe`.
"""

import itertools
import typing
from collections.abc import Sequence

import optuna
from optuna import distributions

from slipway.launch.checks import flags

optuna.logging.set_verbosity(optuna.logging.ERROR)  # not for users of sweeps

# Names of flags that an axis can vary in place of a field of the config.
_FLAGS = ("config", "mode")
_LOG = "log:"
_MAX_BOUND = 2.0**62  # beyond it, integers can't be sampled
# Samples per setting of a random search, after which there are no others.
_MAX_SAMPLES = 100

# Values as text, by field: what makes the runs of a sweep differ.
Setting = dict[str, str]
# A setting as Optuna has it: the value of each axis, by the axis's name.
Params = dict[str, typing.Any]


class Axis(typing.NamedTuple):
  """One field, or several that vary together, and its distribution.

  Choices are texts, as on the command line.
  """

  fields: tuple[str, ...]
  distribution: distributions.BaseDistribution

  @property
  def name(self) -> str:
    """Name of Optuna's parameter."""
    return ",".join(self.fields)

  def to_setting(self, value: typing.Any) -> Setting:
    """Returns a value as text per field, a float with six digits."""
    if isinstance(value, str):
      texts = _split(value, ",") if len(self.fields) > 1 else [value]
      return dict(zip(self.fields, texts, strict=True))
    if isinstance(self.distribution, distributions.FloatDistribution):
      low, high = self.distribution.low, self.distribution.high
      value = min(max(float(f"{value:.6g}"), low), high)
    return {self.name: repr(value)}


def parse(texts: Sequence[str]) -> list[Axis]:
  """Parses the values of --vary; the module's docstring has the forms.

  Raises:
    ValueError: a text is no axis, or a field is varied twice.
  """
  axes = [_parse_axis(text) for text in texts]
  names = [name for axis in axes for name in axis.fields]
  for name in names:
    if names.count(name) > 1:
      raise ValueError(
        f"--vary sets {name} twice, so one of the values would be lost: give "
        "all its values in one --vary"
      )
  return axes


def make_grid(axes: Sequence[Axis]) -> list[Params]:
  """Returns all combinations of the axes' values; [{}] without axes.

  Raises:
    ValueError: an axis is a range, which has no list of values.
  """
  choices = []
  for axis in axes:
    if not isinstance(axis.distribution, distributions.CategoricalDistribution):
      raise ValueError(
        f"--vary={axis.name} is a range, which a grid can't list: give "
        "values separated by ',', or --search=random"
      )
    choices.append([(axis.name, x) for x in axis.distribution.choices])
  return [dict(values) for values in itertools.product(*choices)]


def sample_different(
  axes: Sequence[Axis], settings: int, seed: int
) -> list[Params]:
  """Returns random settings, which differ; fewer ones are the first of these.

  Raises:
    ValueError: the axes have fewer settings.
  """
  study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
  found: dict[str, Params] = {}
  for _ in range(_MAX_SAMPLES * settings):
    params = study.ask(to_distributions(axes)).params
    found.setdefault(repr(to_setting(axes, params)), params)
    if len(found) == settings:
      return [*found.values()]
  raise ValueError(
    f"--settings={settings} is more than --vary has: only {len(found)} "
    "settings differ, so some would be trained twice: give "
    f"--settings={len(found)}, or more values"
  )


def sample_promising(
  axes: Sequence[Axis], seed: int, trials: Sequence[optuna.trial.FrozenTrial]
) -> Params:
  """Returns a setting that is promising by the scores of earlier ones.

  Tree-structured Parzen estimator (TPE), Bergstra et al. 2011, "Algorithms for
  hyper-parameter optimization". The first 10 settings are random. Settings
  without a score count as bad ones, so that those of parallel runs differ.
  """
  sampler = optuna.samplers.TPESampler(
    seed=seed + len(trials), constant_liar=True
  )
  study = optuna.create_study(direction="maximize", sampler=sampler)
  study.add_trials(trials)
  return study.ask(to_distributions(axes)).params


def to_distributions(
  axes: Sequence[Axis],
) -> dict[str, distributions.BaseDistribution]:
  """Returns the axes' distributions by name."""
  return {axis.name: axis.distribution for axis in axes}


def to_setting(axes: Sequence[Axis], params: Params) -> Setting:
  """Returns Optuna's parameters as texts by field."""
  settings = [axis.to_setting(params[axis.name]) for axis in axes]
  return {name: x for setting in settings for name, x in setting.items()}


def to_flag_name(field: str) -> str:
  """Returns the flag of `slipway train` that sets a field of a setting."""
  return field if field in _FLAGS else f"config.{field}"


def describe(setting: Setting) -> str:
  """Returns a setting as text: 'ppo:cartpole learning_rate=1e-4'."""
  short = {name: name.rpartition(".")[2] for name in setting}
  if len({*short.values()}) < len(short):
    short = {name: name for name in setting}
  words = [
    value if name == "config" else f"{short[name]}={value}"
    for name, value in setting.items()
  ]
  return " ".join(words) or "as configured"


def _parse_axis(text: str) -> Axis:
  """Parses one value of --vary."""
  names, _, values = text.partition("=")
  fields = tuple(
    name.removeprefix("config.") for name in _split(names.lstrip("-"), ",")
  )
  if not values or not all(fields):
    raise ValueError(
      f"--vary={text} has no field or no values, so nothing would vary: give "
      "FIELD=VALUE,VALUE, such as learner.learning_rate=1e-4,3e-4"
    )
  is_single = len(fields) == 1
  if is_single and _is_range(values):
    return Axis(fields, _parse_range(text, values))
  choices = _split(values, "," if is_single else ";")
  for choice in choices:
    parts = [choice] if is_single else _split(choice, ",")
    if len(parts) != len(fields) or not all(parts):
      raise ValueError(
        f"--vary={text}: {choice!r} is no value for {names}, so it can't be "
        "trained: separate values by ','; for several fields, separate those "
        "of one setting by ',' and settings by ';'"
      )
    if choices.count(choice) > 1:
      raise ValueError(
        f"--vary={text} has {choice!r} twice, so the same setting would be "
        "trained twice: remove one of them"
      )
  return Axis(fields, distributions.CategoricalDistribution(choices))


def _split(text: str, separator: str) -> list[str]:
  """Splits a text at a separator that is not inside brackets."""
  parts, depth = [""], 0
  for character in text:
    depth += (character in "([{") - (character in ")]}")
    if character == separator and depth == 0:
      parts.append("")
    else:
      parts[-1] += character
  return [part.strip() for part in parts]


def _is_range(values: str) -> bool:
  """Returns whether values are a range, valid or not, and no path as '../a'."""
  low, dots, high = values.removeprefix(_LOG).partition("..")
  if not dots or len(_split(values, ",")) > 1:
    return False
  return values.startswith(_LOG) or any(map(flags.is_number, (low, high)))


def _parse_range(text: str, values: str) -> distributions.BaseDistribution:
  """Parses 'LOW..HIGH' or 'log:LOW..HIGH', the values of the axis `text`."""
  low, _, high = values.removeprefix(_LOG).partition("..")
  is_log = values.startswith(_LOG)
  try:
    bounds = float(low), float(high)
    if not -_MAX_BOUND < bounds[0] < bounds[1] < _MAX_BOUND:
      raise ValueError
    if is_log and bounds[0] <= 0:
      raise ValueError
  except ValueError as error:
    raise ValueError(
      f"--vary={text} is no range, so nothing could be sampled: give LOW..HIGH "
      "with LOW < HIGH, such as 0.9..0.999; after log:, both above 0"
    ) from error
  if "." not in low + high and all(x.is_integer() for x in bounds):
    return distributions.IntDistribution(*map(int, bounds), log=is_log)
  return distributions.FloatDistribution(*bounds, log=is_log)
