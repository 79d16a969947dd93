"""The flags of the commands, and their errors as one line each."""

import difflib
import sys
import typing
from collections.abc import Mapping, Sequence

from absl import flags
from ml_collections import config_flags

from launch import overrides

LAUNCHES = ("local_mp", "local_mt", "single")


def define_train_flags(argv: Sequence[str]) -> flags.FlagValues:
  """Defines the flags of `launch.train`; returns them, unparsed.

  Args:
    argv: what will be parsed; its overrides of the config become flags.
  """
  values = flags.FlagValues()
  config_flags.DEFINE_config_file(
    "config",
    overrides.DEFAULT_CONFIG,
    "The experiment: a file of configs/, after a colon one of its presets. "
    "Every field of it is a flag too: --config.replay.capacity=50_000.",
    flag_values=values,
    sys_argv=list(argv),
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


def parse_train(argv: Sequence[str], usage: str) -> flags.FlagValues:
  """Parses a command line of `launch.train`.

  Args:
    argv: the program's name and its arguments.
    usage: one sentence for the help.

  Raises:
    ValueError: one line with the flag, its value and what is near it.
    SystemExit: help was asked for and printed.
  """
  if _asks_for_help(argv):
    return parse(define_train_flags(argv[:1]), argv, usage)
  argv, kwargs = overrides.arrange(argv)
  fields = dict(overrides.fields(overrides.load(argv[1].partition("=")[2])))
  overrides.check_names(argv, fields)
  values = parse(define_train_flags(argv), argv, usage, fields)
  overrides.check_items(values.config, fields)
  overrides.set_kwargs(values.config, kwargs)
  return values


def parse(
  values: flags.FlagValues,
  argv: Sequence[str],
  usage: str,
  fields: Mapping[str, typing.Any] | None = None,
) -> flags.FlagValues:
  """Parses a command line.

  Args:
    values: defined flags.
    argv: the program's name and its arguments.
    usage: one sentence for the help.
    fields: of the config, if the command takes one: values by name.

  Raises:
    ValueError: one line with the flag, its value and what is near it.
    SystemExit: help was asked for and printed.
  """
  if _asks_for_help(argv):
    print(f"{usage}\n\n{values.get_help()}")
    sys.exit(0)
  try:
    rest = values(list(argv))
  except flags.UnrecognizedFlagError as error:
    raise ValueError(
      f"--{error.flagname} is no flag, so it would do nothing: did you mean "
      f"--{_nearest(error.flagname, list(values))}?"
    ) from error
  except flags.Error as error:
    raise ValueError(_explain(error, values, fields or {})) from error
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


def _asks_for_help(argv: Sequence[str]) -> bool:
  return any(a in ("--help", "-h", "--helpfull") for a in argv[1:])


def _nearest(name: str, names: Sequence[str]) -> str:
  return difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]


def _explain(
  error: flags.Error,
  values: flags.FlagValues,
  fields: Mapping[str, typing.Any],
) -> str:
  """One line for an error of parsing."""
  said = " ".join(str(error).split())
  if not said.startswith("flag --"):
    return said
  argument, _, why = said.removeprefix("flag ").partition(": ")
  name, _, value = argument.removeprefix("--").partition("=")
  field = name.removeprefix("config.")
  if field in fields:
    return overrides.wrong_type(argument, fields[field])
  choices = getattr(values[name].parser, "enum_values", None)
  if choices:
    return (
      f"{argument} is none of {', '.join(choices)}: did you mean "
      f"{_nearest(value, choices)}?"
    )
  return f"{argument} can't be used: {why}"
