"""Flags: parses the flags of commands, with errors that advise."""

import sys
import typing
from collections.abc import Collection, Mapping, Sequence

from absl import flags

from slipway.configs import catalog, names, typed_config
from slipway.launch.checks import overrides
from slipway.launch.runs import error_text, run_folder


def define_trust(values: flags.FlagValues) -> None:
  """Defines --trust, for a command that executes what a run's files name."""
  flags.DEFINE_bool(
    "trust",
    False,
    "Use a run although another user made it, or any user can write to its "
    "folder. Code that its config.json, python_path.json and single.pkl name "
    "or contain is executed, also of a run of your own that you have received.",
    flag_values=values,
  )


def parse_known(
  values: flags.FlagValues, argv: Sequence[str], usage: str
) -> tuple[flags.FlagValues, list[str]]:
  """Parses the flags of a command that has flags of another command, too.

  Args:
    values: the command's flags, which get the values of the command line.
    argv: the program's name and its arguments.
    usage: sentences that begin the help.

  Returns:
    `values`, and the arguments that are no flags of `values`, in their order.

  Raises:
    ValueError: a value is invalid, or an argument is no flag.
    SystemExit: help was requested and printed.
  """
  own: list[str] = [argv[0]]
  others: list[str] = []
  known = {*values, *(f"no{name}" for name in values if values[name].boolean)}
  to = own
  for argument in argv[1:]:
    if argument.startswith("-") and not is_number(argument):
      to = own if argument.lstrip("-").partition("=")[0] in known else others
    to.append(argument)  # a value that is an argument of its own follows
  return parse(values, own, usage), others


def parse(
  values: flags.FlagValues,
  argv: Sequence[str],
  usage: str,
  field_values: Mapping[str, typing.Any] | None = None,
  epilogue: str = "",
) -> flags.FlagValues:
  """Parses the flags of a command line, or prints the command's help.

  Args:
    values: the command's flags, which get the values of the command line.
    argv: the program's name and its arguments.
    usage: sentence that begins the help.
    field_values: the config's values by field name, for error messages, or None
      if the command has no config.
    epilogue: text at the end of the help.

  Returns:
    `values`.

  Raises:
    ValueError: a flag or its value is invalid; the message suggests another.
    SystemExit: help was requested and printed.
  """
  field_values = field_values or {}
  if requests_help(argv):
    print(f"{usage}\n\n{values.get_help()}\n\n{epilogue}".rstrip())
    sys.exit(0)
  try:
    rest = values(_write_whole_numbers(values, argv))
  except flags.UnrecognizedFlagError as error:
    raise ValueError(
      f"--{error.flagname} is no flag, so it would do nothing: "
      f"{_suggest_flag(error.flagname, list(values), field_values, argv[0])}"
    ) from error
  except flags.Error as error:
    words = split_words(values, argv)[1]
    raise ValueError(
      _explain_error(error, values, field_values, words)
    ) from error
  for name in values:
    value = values[name].value
    if isinstance(value, str) and value.startswith("~"):
      values[name].value = str(run_folder.expand(value))
  if len(rest) > 1:
    raise ValueError(
      f"{rest[1]!r} is no flag, so it would do nothing: "
      f"{_suggest_dashes(rest[1], values)}"
    )
  return values


def split_words(
  values: flags.FlagValues, argv: Sequence[str]
) -> tuple[list[str], list[str]]:
  """Separates the flags of a command line from its other arguments.

  Args:
    values: the command's flags, before parsing.
    argv: the program's name and its arguments.

  Returns:
    A list of the program's name and all flags, and a list of all other
    arguments, which may be negative numbers.
  """
  # Flags whose value may be the next argument, with their dashes.
  with_values = {
    f"{dashes}{name}": name
    for name in values
    for dashes in ("-", "--")
    if not values[name].boolean
  }
  given, words = [argv[0]], []
  arguments = iter(argv[1:])
  for argument in arguments:
    if argument in with_values:
      given.append(f"--{with_values[argument]}={next(arguments, '')}")
    elif argument.startswith("-") and not is_number(argument):
      given.append(argument)
    else:
      words.append(argument)
  return given, words


def is_number(text: str) -> bool:
  """Returns whether a text is a number, such as '-1'."""
  try:
    float(text)
  except ValueError:
    return False
  return True


def requests_help(argv: Sequence[str]) -> bool:
  """Returns whether a command line has --help, -h or --helpfull.

  Args:
    argv: the program's name and its arguments.
  """
  return any(a in ("--help", "-h", "--helpfull") for a in argv[1:])


def _write_whole_numbers(
  values: flags.FlagValues, argv: Sequence[str]
) -> list[str]:
  """Returns a command line with whole numbers as digits, not '1e5'."""
  written, is_value = [], False  # is_value: of the integer flag before
  for argument in argv:
    flag, given, text = argument.partition("=")
    name = flag.lstrip("-")
    is_integer = (
      flag.startswith("-")
      and name in values
      and isinstance(values[name].parser, flags.IntegerParser)
    )
    if is_integer and given:
      argument = f"{flag}={_write_whole_number(text)}"
    elif is_value:
      argument = _write_whole_number(argument)
    is_value = is_integer and not given
    written.append(argument)
  return written


def _write_whole_number(text: str) -> str:
  """Returns the digits of a whole number, and other texts unchanged."""
  try:
    return str(typed_config.parse_int(text))
  except ValueError:
    return text


def _suggest_flag(
  name: str,
  known: Sequence[str],
  field_names: Collection[str],
  command: str,
) -> str:
  """Returns advice for an unknown flag, for an error message."""
  # A field whose last part is `name` is a better match than a similar flag.
  exact = [x for x in field_names if x.rpartition(".")[2] == name]
  near = names.find_alias(name, known) or names.find_word(name, known)
  field = names.find_field(name, field_names)
  if field is not None and (exact or near is None):
    return f"did you mean --{overrides.PREFIX}{field}?"
  if near is not None:
    return f"did you mean --{near}?"
  return f"`{command} --help` shows all flags"


def _suggest_dashes(word: str, values: flags.FlagValues) -> str:
  """Returns advice for an argument that does not begin with --."""
  text = word.lstrip("\u2013\u2014-")  # dashes that editors insert
  name, given, _ = text.partition("=")
  if given and (name in values or name.startswith(overrides.PREFIX)):
    return f"did you mean --{text}?"
  for flag in ("config", "algorithm"):
    if flag in values and text.partition(":")[0] in catalog.algorithms():
      return f"did you mean --{flag}={text}?"
  return "flags start with --"


def _explain_error(
  error: flags.Error,
  values: flags.FlagValues,
  field_values: Mapping[str, typing.Any],
  words: Sequence[str],
) -> str:
  """Returns a message with the cause and the remedy of a parser's error."""
  text = error_text.one_line(error)
  if text.startswith("Missing value for flag --"):
    flag = text.removeprefix("Missing value for flag ")
    return f"{flag} has no value, so it would do nothing: give {flag}=VALUE"
  if not text.startswith("flag --"):
    return text
  argument, _, reason = text.removeprefix("flag ").partition(": ")
  name, _, value = argument.removeprefix("--").partition("=")
  _, of_config, field = name.rpartition("config.")
  if of_config and field in field_values:
    return overrides.describe_wrong_type(argument, field_values[field])
  if value == "None" and "other than None" in reason:  # a required flag
    advice = (
      f"did you mean --{name}={words[0]}?"
      if words
      else f"give --{name}=FOLDER, such as runs/first"
    )
    return f"--{name} is missing, so the command has no run: {advice}"
  if reason.startswith("invalid literal for int"):
    return f"{argument} is no whole number, so it can't be used: give one"
  if values[name].boolean:
    return f"{argument} is neither True nor False: give --{name} or --no{name}"
  choices = getattr(values[name].parser, "enum_values", None)
  if choices:
    near = names.find_word(value, choices)
    advice = f"did you mean {near}?" if near else "give one of them"
    return f"{argument} is none of {', '.join(choices)}: {advice}"
  return f"{argument} can't be used: {reason}"
