"""The flags of the commands, and their errors as one line each."""

import difflib
import sys
import typing
from collections.abc import Sequence

import ml_collections
from absl import flags
from ml_collections import config_flags

LAUNCHES = ("local_mp", "local_mt", "single")


def define_train_flags() -> flags.FlagValues:
  """Defines the flags of `launch.train`; returns them, unparsed."""
  values = flags.FlagValues()
  config_flags.DEFINE_config_file(
    "config",
    "configs/apex_dqn.py:cartpole",
    "The experiment: a file of configs/, after a colon one of its presets. "
    "Every field of it is a flag too: --config.replay.capacity=50_000.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "name",
    None,
    "Name of the run's folder below --run_dir. By default the config's name "
    "and the time.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "run_dir",
    "runs",
    "Folder that holds the folders of all runs; made if it is missing.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace the run of this name if there is one. Without it, an existing "
    "run is left alone and the new one refused.",
    flag_values=values,
  )
  flags.DEFINE_enum(
    "launch",
    "local_mp",
    LAUNCHES,
    "Where the nodes run: local_mp, each in a process of its own; local_mt, "
    "as threads of one process, for a debugger; single, one after the other "
    "without servers, equal to the bit for a seed.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def define_evaluate_flags() -> flags.FlagValues:
  """Defines the flags of `launch.evaluate`; returns them, unparsed."""
  values = flags.FlagValues()
  flags.DEFINE_string(
    "run", None, "Folder of the run to play: runs/<name>.", flag_values=values
  )
  flags.mark_flag_as_required("run", flag_values=values)
  flags.DEFINE_integer(
    "episodes",
    20,
    "How many greedy episodes to play.",
    lower_bound=1,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "seed",
    2_000_000,
    "Seed of the environments; by default apart from those of a training.",
    lower_bound=0,
    flag_values=values,
  )
  flags.DEFINE_bool(
    "video",
    False,
    "Also film one episode into the run's folder videos/.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def parse(
  values: flags.FlagValues, argv: Sequence[str], usage: str
) -> flags.FlagValues:
  """Parses a command line.

  Args:
    values: defined flags.
    argv: the program's name and its arguments.
    usage: one sentence for the help.

  Raises:
    ValueError: one line with the flag, its value and what is near it.
    SystemExit: help was asked for and printed.
  """
  if any(argument in ("--help", "-h", "--helpfull") for argument in argv[1:]):
    print(f"{usage}\n\n{values.get_help()}")
    sys.exit(0)
  try:
    rest = values(list(argv))
  except (flags.Error, AttributeError, KeyError, TypeError) as error:
    raise ValueError(_explain(error, argv)) from error
  except OSError as error:
    raise ValueError(
      f"--config={_value_of(argv, 'config')} can't be read "
      f"({error.strerror}), so there is nothing to run: give a file of "
      "configs/"
    ) from error
  if len(rest) > 1:
    raise ValueError(
      f"{rest[1]!r} is no flag, so it would do nothing: flags start with --"
    )
  return values


def config_name(values: flags.FlagValues) -> str:
  """'apex_dqn_cartpole' for --config=configs/apex_dqn.py:cartpole."""
  file, _, preset = config_flags.get_config_filename(
    values["config"]
  ).partition(":")
  stem = file.rsplit("/", 1)[-1].removesuffix(".py")
  return f"{stem}_{preset}" if preset else stem


def _explain(error: Exception, argv: Sequence[str]) -> str:
  """One line for an error of parsing, with the nearest field if there is."""
  for argument in argv[1:]:
    name, _, value = argument.lstrip("-").partition("=")
    if not name.startswith("config."):
      continue
    config = _load_config(argv)
    if config is None:
      break
    fields = dict(_fields(config))
    field = name.removeprefix("config.")
    if field not in fields and not field.startswith("environment.kwargs."):
      near = difflib.get_close_matches(field, fields, n=1, cutoff=0.0)
      return (
        f"--{name}={value}: the config has no field {field!r}, so nothing "
        f"would change: did you mean --config.{near[0]}?"
      )
    wanted = type(fields.get(field)).__name__
    if f"config.{field}" in str(error):
      return (
        f"--{name}={value}: the field wants a {wanted}, so this value can't "
        f"be used; it is {fields[field]!r} by default"
      )
  return " ".join(str(error).split())


def _load_config(argv: Sequence[str]) -> ml_collections.ConfigDict | None:
  """The config without overrides, or None if it can't be loaded."""
  values = define_train_flags()
  kept = [a for a in argv if not a.lstrip("-").startswith("config.")]
  try:
    values(kept, known_only=True)
  except (flags.Error, AttributeError, KeyError, TypeError, OSError):
    return None
  return values.config


def _fields(
  config: ml_collections.ConfigDict, prefix: str = ""
) -> typing.Iterator[tuple[str, typing.Any]]:
  for name, value in config.items():
    if isinstance(value, ml_collections.ConfigDict):
      yield from _fields(value, f"{prefix}{name}.")
    else:
      yield f"{prefix}{name}", value


def _value_of(argv: Sequence[str], flag: str) -> str:
  for argument in argv:
    name, _, value = argument.lstrip("-").partition("=")
    if name == flag:
      return value
  return ""
