"""Flags: a command's flags, by absl, with errors that advise."""

import sys
import typing
from collections.abc import Collection, Sequence

from absl import flags

from slipway.configs import catalog, fields, groups, names, typed_config
from slipway.launch.checks import overrides
from slipway.launch.display import standard_streams
from slipway.launch.runs import run_folder

flags.disclaim_key_flags()  # the help names the command's module, not this one


class CommandLine(typing.NamedTuple):
  """The arguments of a command line in three groups, from `Flags.split`.

  Attributes:
    own: names and texts of the command's flags; None if the text is missing.
    others: arguments that are no flags of the command, such as
      '--config.seed=3'; a value that was an argument of its own is joined.
    words: arguments that are no flags at all.
  """

  own: list[tuple[str, str | None]]
  others: list[str]
  words: list[str]


class Flags(flags.FlagValues):
  """The flags of a command, of which each has --help.

  ```python
  values = Flags()
  values.add_integer("episodes", 20, "Number of episodes.", 1, 1_000)
  values.parse(["slipway evaluate", "--episodes=5"], "Plays episodes.")
  print(values.episodes)
  ```
  """

  def __init__(self):
    """Has no other flag than --help yet."""
    super().__init__()
    self.add_bool("help", False, "Show this help.")

  def add_bool(self, name: str, default: bool, meaning: str) -> None:
    """Adds a flag --NAME, or --noNAME."""
    flags.DEFINE_bool(name, default, meaning, self)

  def add_text(self, name: str, default: str | None, meaning: str) -> None:
    """Adds a flag --NAME=TEXT; a path may begin with ~."""
    flags.DEFINE_string(name, default, meaning, self)

  def add_texts(self, name: str, meaning: str) -> None:
    """Adds a flag --NAME=TEXT that can be given several times."""
    flags.DEFINE_multi_string(name, [], meaning, self)

  def add_choice(
    self, name: str, default: str | None, choices: Sequence[str], meaning: str
  ) -> None:
    """Adds a flag whose text is one of several."""
    flags.DEFINE_enum(name, default, choices, meaning, self)

  def add_integer(
    self, name: str, default: int | None, meaning: str, low: int, high: int
  ) -> None:
    """Adds a flag with an integer from `low` to `high`."""
    flags.DEFINE(_WholeNumber(low, high), name, default, meaning, self)

  def add_probability(self, name: str, default: float, meaning: str) -> None:
    """Adds a flag with a number from 0 to 1."""
    flags.DEFINE_float(name, default, meaning, 0.0, 1.0, self)

  def add_run(self, meaning: str) -> None:
    """Adds --run, which must be given unless there is an --environment."""
    self.add_text("run", None, meaning)

  def add_policy(self) -> None:
    """Adds --policy, for commands that play a run's policy."""
    self.add_choice(
      "policy",
      None,
      groups.POLICIES,
      "Actions: greedy, the most probable ones; sampled from the policy, as in "
      "training. Default: the config's evaluation.policy.",
    )

  def add_source(self, which: str = "best") -> None:
    """Adds --which, with a default, and --seed, for playing episodes."""
    self.add_text(
      "which",
      which,
      "Variables of the policy: best, those of the best evaluation; latest, "
      "those of the newest snapshot; or the number of a snapshot.",
    )
    self.add_integer(
      "seed",
      2_000_000,
      "Seed of the environments. The default differs from the seeds of "
      "training.",
      0,
      2**31 - 1,  # environments take seeds of 31 bits
    )

  def add_trust(self) -> None:
    """Adds --trust, for a command that executes what a run's files name."""
    self.add_bool(
      "trust",
      False,
      "Use a run although another user made it, or any user can write to its "
      "folder. Code that its config.json, python_path.json and single.pkl name "
      "or contain is executed, also of a run of your own that you have "
      "received.",
    )

  def parse(
    self, argv: Sequence[str], usage: str, has_words: bool = False
  ) -> list[str]:
    """Sets the flags from a command line, or prints the help and exits.

    Returns:
      The arguments that are no flags, which may be negative numbers.

    Raises:
      ValueError: a flag or its value is invalid; the message suggests another.
      SystemExit: help was requested and printed.
    """
    line = self._parse(argv, usage)
    self.reject(line.others + (not has_words) * line.words, argv[0])
    return line.words

  def parse_run(self, argv: Sequence[str], usage: str) -> str:
    """As `parse`, for a command of one run; returns the run's folder."""
    runs = self.parse(argv, usage, has_words=True)
    if len(runs) != 1:
      raise ValueError(
        f"{len(runs)} runs are given, and the command is for one: give the "
        "folder of a run, such as runs/first"
      )
    return runs[0]

  def parse_known(self, argv: Sequence[str], usage: str) -> CommandLine:
    """As `parse`, but returns a command line that may have other flags."""
    line = self._parse(argv, usage)
    self.reject(line.words, argv[0])
    return line

  def _parse(self, argv: Sequence[str], usage: str) -> CommandLine:
    """Sets the flags from a command line, which may have other arguments."""
    line = self.split(argv)
    if ("help", "true") in line.own:
      self.show_help(usage)
    self.set(line)
    return line

  def split(self, argv: Sequence[str]) -> CommandLine:
    """Returns the arguments of a command line in groups; sets nothing.

    Raises:
      ValueError: a file of flags (--flagfile) can't be read.
    """
    try:
      arguments = self.read_flags_from_files(argv[1:])[::-1]
    except (flags.Error, UnicodeDecodeError) as error:
      raise ValueError(
        f"a flag file can't be used ({error.__context__ or error}), so nothing "
        "was done: give --flagfile=PATH of a text with a flag per line"
      ) from error
    line = CommandLine([], [], [])
    while arguments:
      argument = arguments.pop()
      name, given, text = argument.lstrip("-").partition("=")
      value = text if given else None
      positive = name.removeprefix("no")
      if not _is_flag(argument):
        line.words.append(argument)
      elif argument in ("-h", "--helpfull"):
        line.own.append(("help", "true"))
      elif name in self:
        if value is None and self[name].boolean:
          value = "true"
        elif value is None and arguments:
          value = arguments.pop()
        line.own.append((name, value))
      elif positive in self and self[positive].boolean and not given:
        line.own.append((positive, "false"))
      else:
        if not given and arguments and not _is_flag(arguments[-1]):
          argument += f"={arguments.pop()}"
        line.others.append(argument)
    return line

  def show_help(self, usage: str, epilogue: str = "") -> typing.NoReturn:
    """Prints the help of the command, and exits."""
    flags_help = self.get_help(include_special_flags=False)
    file_help = "  --flagfile: Path of a file with further flags, one a line."
    try:
      print(f"{usage}\n\n{flags_help}\n{file_help}\n\n{epilogue}".rstrip())
      sys.stdout.flush()
    except BrokenPipeError:  # as in `slipway train --help | head`
      standard_streams.discard(sys.stdout.fileno())
    sys.exit(0)

  def set(self, line: CommandLine) -> None:
    """Sets the values of the command's flags.

    Raises:
      ValueError: a value is missing or invalid, or a run is.
    """
    for name, text in line.own:
      self._set(name, text)
    self.mark_as_parsed()
    sources = [self[x].value for x in ("run", "environment") if x in self]
    if "run" in self and not any(sources):
      advice = (
        f"did you mean --run={line.words[0]}?"
        if line.words
        else "give --run=FOLDER, such as runs/first"
      )
      raise ValueError(f"--run is missing, so the command has no run: {advice}")

  def _set(self, name: str, text: str | None) -> None:
    """Sets one flag."""
    flag = self[name]
    if text is None:
      raise ValueError(
        f"--{name} has no value, so it would do nothing: give --{name}=VALUE"
      )
    try:
      flag.parse(text)
    except flags.Error as error:
      argument = fields.shorten(f"--{name}={text}")
      choices = getattr(flag.parser, "enum_values", None)
      if flag.boolean:
        why = f"is neither True nor False: give --{name} or --no{name}"
      elif choices:
        near = names.find_word(text, choices)
        advice = f"did you mean {near}?" if near else "give one of them"
        why = f"is none of {', '.join(choices)}: {advice}"
      else:
        why = f"can't be used: {error.__context__}"
      raise ValueError(f"{argument} {why}") from error
    if isinstance(flag.value, str) and flag.value.startswith("~"):
      flag.value = str(run_folder.expand(flag.value))

  def reject(
    self,
    others: Sequence[str],
    command: str,
    field_names: Collection[str] = (),
  ) -> None:
    """Raises ValueError if there is an argument that has no effect."""
    for argument in others:
      name = argument.lstrip("-").partition("=")[0]
      if _is_flag(argument):
        shown = f"--{fields.shorten(name)}"
        advice = self._advise_flag(name, field_names, command)
      else:
        shown, advice = repr(argument), self._advise_dashes(argument)
      raise ValueError(f"{shown} is no flag, so it would do nothing: {advice}")

  def _advise_flag(
    self, name: str, field_names: Collection[str], command: str
  ) -> str:
    """Returns advice for an unknown flag, for an error message."""
    # A field whose last part is `name` is a better match than a similar flag.
    exact = [x for x in field_names if x.rpartition(".")[2] == name]
    near = names.find_alias(name, list(self)) or names.find_word(name, self)
    field = names.find_field(name, field_names)
    if field is not None and (exact or near is None):
      return f"did you mean --{overrides.PREFIX}{field}?"
    if near is not None:
      return f"did you mean --{near}?"
    return f"`{command} --help` shows all flags"

  def _advise_dashes(self, word: str) -> str:
    """Returns advice for an argument that does not begin with --."""
    text = word.lstrip("\u2013\u2014-")  # dashes that editors insert
    name, given, _ = text.partition("=")
    if given and (name in self or name.startswith(overrides.PREFIX)):
      return f"did you mean --{text}?"
    for flag in ("config", "algorithm"):
      if flag in self and text.partition(":")[0] in catalog.algorithms():
        return f"did you mean --{flag}={text}?"
    return "flags start with --"


class _WholeNumber(flags.IntegerParser):
  """Parses integers, which may be written as '1e5'."""

  def convert(self, argument: int | str) -> int:
    try:
      return typed_config.parse_int(str(argument))
    except (ValueError, OverflowError):
      raise ValueError("it is no whole number") from None


def is_number(text: str) -> bool:
  """Returns whether a text is a number, such as '-1'."""
  try:
    float(text)
  except ValueError:
    return False
  return True


def _is_flag(argument: str) -> bool:
  return argument.startswith("-") and not is_number(argument)
