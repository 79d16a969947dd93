"""Flags: defines and parses flags of commands, with one-line errors."""

import sys
import typing
from collections.abc import Collection, Mapping, Sequence

from absl import flags

from slipway.configs import names
from slipway.launch.options import overrides


def define_evaluate_flags() -> flags.FlagValues:
  """Defines the flags of `slipway evaluate`; returns them, unparsed."""
  values = flags.FlagValues()
  flags.DEFINE_string(
    "run", None, "Folder of the run to play: runs/<name>.", flag_values=values
  )
  flags.mark_flag_as_required("run", flag_values=values)
  flags.DEFINE_integer(
    "episodes",
    20,
    "Number of greedy episodes to play.",
    lower_bound=1,
    upper_bound=10**9,
    flag_values=values,
  )
  flags.DEFINE_string(
    "which",
    "best",
    "Which variables to play: best, those of the best evaluation; latest, "
    "those of the newest snapshot; or the number of a snapshot.",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "seed",
    2_000_000,
    "Seed of the environments; the default differs from those of trainings.",
    lower_bound=0,
    upper_bound=2**31 - 1,  # environments take 31 bits
    flag_values=values,
  )
  flags.DEFINE_bool(
    "video",
    False,
    "Also film one episode into the run's folder videos/.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "record",
    None,
    "New folder in which the episodes are recorded as a Minari dataset.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def define_list_flags() -> flags.FlagValues:
  """Defines the flags of `slipway list`; returns them, unparsed."""
  values = flags.FlagValues()
  flags.DEFINE_string(
    "algorithm",
    None,
    "One algorithm: a built-in name, or your own config's file, which ends in "
    ".py. By default all.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def parse(
  values: flags.FlagValues,
  argv: Sequence[str],
  usage: str,
  fields: Mapping[str, typing.Any] | None = None,
  epilogue: str = "",
) -> flags.FlagValues:
  """Parses a command line.

  Args:
    values: the defined flags.
    argv: the program's name and its arguments.
    usage: one sentence for the help.
    fields: the config's values by field name, for suggestions, or None without
      a config.
    epilogue: text at the end of the help.

  Raises:
    ValueError: a flag or its value is invalid; the message has a suggestion.
    SystemExit: help was requested and printed.
  """
  if requests_help(argv):
    print(f"{usage}\n\n{values.get_help()}\n\n{epilogue}".rstrip())
    sys.exit(0)
  try:
    rest = values(list(argv))
  except flags.UnrecognizedFlagError as error:
    raise ValueError(
      f"--{error.flagname} is no flag, so it would do nothing: "
      f"{_suggest_flag(error.flagname, list(values), fields or {}, argv[0])}"
    ) from error
  except flags.Error as error:
    raise ValueError(_explain_error(error, values, fields or {})) from error
  if len(rest) > 1:
    raise ValueError(
      f"{rest[1]!r} is no flag, so it would do nothing: flags start with --"
    )
  return values


def requests_help(argv: Sequence[str]) -> bool:
  """Returns whether a command line requests help."""
  return any(a in ("--help", "-h", "--helpfull") for a in argv[1:])


def _suggest_flag(
  name: str, known: Sequence[str], fields: Collection[str], command: str
) -> str:
  """Returns a suggestion for a flag that does not exist.

  Args:
    name: name of the flag.
    known: names of the defined flags.
    fields: names of the config's fields.
    command: the program's name.
  """
  # A field whose last part is `name` is a better match than a similar flag.
  exact = [x for x in fields if x.rpartition(".")[2] == name]
  near = names.find_alias(name, known) or names.find_word(name, known)
  field = names.find_field(name, fields)
  if field is not None and (exact or near is None):
    return f"did you mean --{overrides.PREFIX}{field}?"
  if near is not None:
    return f"did you mean --{near}?"
  return f"`{command} --help` shows all flags"


def _explain_error(
  error: flags.Error,
  values: flags.FlagValues,
  fields: Mapping[str, typing.Any],
) -> str:
  """Returns a message for an error of absl's parser.

  Args:
    error: the error.
    values: the defined flags.
    fields: the config's values by field name.
  """
  text = " ".join(str(error).split())
  if not text.startswith("flag --"):
    return text
  argument, _, reason = text.removeprefix("flag ").partition(": ")
  name, _, value = argument.removeprefix("--").partition("=")
  _, of_config, field = name.rpartition("config.")
  if of_config and field in fields:
    return overrides.wrong_type(argument, fields[field])
  if value == "None" and "other than None" in reason:  # a required flag
    return (
      f"--{name} is missing, so the command has no run: give "
      f"--{name}=FOLDER, such as runs/first"
    )
  choices = getattr(values[name].parser, "enum_values", None)
  if choices:
    near = names.find_word(value, choices)
    advice = f"did you mean {near}?" if near else "give one of them"
    return f"{argument} is none of {', '.join(choices)}: {advice}"
  return f"{argument} can't be used: {reason}"
