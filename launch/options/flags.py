"""Flags: defines and parses the flags of commands, with errors that advise."""

import sys
import typing
from collections.abc import Collection, Mapping, Sequence

from absl import flags

from slipway.configs import names
from slipway.launch.options import overrides
from slipway.launch.runs import error_text


def define_evaluate_flags() -> flags.FlagValues:
  """Returns the flags of `slipway evaluate`, before parsing."""
  values = flags.FlagValues()
  flags.DEFINE_string(
    "run",
    None,
    "Folder of the run whose policy is played: runs/<name>.",
    flag_values=values,
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
    "Variables of the policy: best, those of the best evaluation; latest, "
    "those of the newest snapshot; or the number of a snapshot.",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "seed",
    2_000_000,
    "Seed of the environments. The default differs from the seeds of training.",
    lower_bound=0,
    upper_bound=2**31 - 1,  # environments take seeds of 31 bits
    flag_values=values,
  )
  flags.DEFINE_bool(
    "video",
    False,
    "Also film one episode, as an MP4 file in the run's folder videos/.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "record",
    None,
    "New folder in which the episodes are saved as a Minari dataset.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def define_list_flags() -> flags.FlagValues:
  """Returns the flags of `slipway list`, before parsing."""
  values = flags.FlagValues()
  flags.DEFINE_string(
    "algorithm",
    None,
    "Algorithm to describe: a built-in name, or the path of your own config's "
    "file, which ends in .py. Default: list all algorithms.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def define_plot_flags() -> flags.FlagValues:
  """Returns the flags of `slipway plot`, before parsing."""
  values = flags.FlagValues()
  flags.DEFINE_string(
    "output",
    "comparison.png",
    "Path of the picture, whose ending is its format: .png, .pdf or .svg.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


def define_sweep_flags() -> flags.FlagValues:
  """Returns the flags of `slipway sweep`, before parsing."""
  values = flags.FlagValues()
  flags.DEFINE_multi_string(
    "vary",
    [],
    "Field of the config and its values, FIELD=VALUE,VALUE; given several "
    "times, all combinations are trained. FIELD,FIELD=VALUE,VALUE;VALUE,VALUE "
    "varies fields together. FIELD=LOW..HIGH is a range, whose logarithm is "
    "uniform with FIELD=log:LOW..HIGH. The field 'config' varies the config "
    "itself: config=dqn:cartpole,rainbow:cartpole.",
    flag_values=values,
  )
  flags.DEFINE_enum(
    "search",
    "grid",
    ["grid", "random", "optuna"],
    "Choice of the settings: grid, all combinations; random, different "
    "samples; optuna, by the scores of earlier settings (needs the package "
    "optuna).",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "settings",
    20,
    "Number of settings; only with --search=random or optuna.",
    lower_bound=1,
    upper_bound=100_000,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "search_seed",
    0,
    "Seed of the search.",
    lower_bound=0,
    upper_bound=2**31 - 1,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "seeds",
    1,
    "Number of runs of each setting; their seeds are FIRST_SEED, "
    "FIRST_SEED + 1, ...",
    lower_bound=1,
    upper_bound=100_000,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "first_seed",
    1,
    "Seed of the first run of each setting. After a search with seeds 1 to 5, "
    "--first_seed=6 tests what it found on new ones.",
    lower_bound=0,
    upper_bound=1_000_000_000,
    flag_values=values,
  )
  flags.DEFINE_integer(
    "at_once",
    None,
    "Number of runs that are trained at the same time. Default: what the "
    "cores allow, with a core per run in mode 'single', and otherwise one per "
    "worker and one for the trainer.",
    lower_bound=1,
    upper_bound=10_000,
    flag_values=values,
  )
  flags.DEFINE_string(
    "ray_address",
    None,
    "Address of a Ray cluster, as HOST:PORT, on whose machines the runs are "
    "trained, each whole on one machine; with --launch=ray, each on all "
    "machines. This machine must belong to the cluster. Without this flag, all "
    "runs are trained on this machine. With --resume, the default is the "
    "sweep's address, and an empty one stands for this machine.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "insecure",
    False,
    "With --ray_address or --launch=ray: use a Ray cluster without tokens or "
    "TLS, and let the machines of a run communicate without certificates. "
    "Anyone who can reach them can then read and change the runs, and run "
    "programs: for private networks only.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "name",
    None,
    "Name of the sweep's folder inside --run_dir. Default: 'sweep' and the "
    "time.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "run_dir",
    "runs",
    "Folder that contains the folders of all runs and sweeps.",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace the sweep of this name, with all its runs, if there is one.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "resume",
    None,
    "Folder of a sweep, runs/<name>, whose unfinished runs are resumed or "
    "trained again. A larger --seeds or --settings adds runs. --at_once, "
    "--ray_address and --insecure are those of the sweep unless they are given "
    "again.",
    flag_values=values,
  )
  flags.DEFINE_bool("help", False, "Show this help.", flag_values=values)
  return values


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
    rest = values(list(argv))
  except flags.UnrecognizedFlagError as error:
    raise ValueError(
      f"--{error.flagname} is no flag, so it would do nothing: "
      f"{_suggest_flag(error.flagname, list(values), field_values, argv[0])}"
    ) from error
  except flags.Error as error:
    raise ValueError(_explain_error(error, values, field_values)) from error
  if len(rest) > 1:
    raise ValueError(
      f"{rest[1]!r} is no flag, so it would do nothing: flags start with --"
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


def _suggest_flag(
  name: str,
  known: Sequence[str],
  field_names: Collection[str],
  command: str,
) -> str:
  """Returns advice for an unknown flag, for an error message.

  Args:
    name: name of the unknown flag.
    known: names of the command's flags.
    field_names: names of the config's fields, which are flags, too.
    command: name of the command, such as 'slipway train'.

  Returns:
    A question such as 'did you mean --name?', or how to list all flags.
  """
  # A field whose last part is `name` is a better match than a similar flag.
  exact = [x for x in field_names if x.rpartition(".")[2] == name]
  near = names.find_alias(name, known) or names.find_word(name, known)
  field = names.find_field(name, field_names)
  if field is not None and (exact or near is None):
    return f"did you mean --{overrides.PREFIX}{field}?"
  if near is not None:
    return f"did you mean --{near}?"
  return f"`{command} --help` shows all flags"


def _explain_error(
  error: flags.Error,
  values: flags.FlagValues,
  field_values: Mapping[str, typing.Any],
) -> str:
  """Returns a message with the cause and the remedy of a parser's error.

  Args:
    error: the error that absl's parser has raised.
    values: the command's flags.
    field_values: the config's values by field name.
  """
  text = error_text.one_line(error)
  if not text.startswith("flag --"):
    return text
  argument, _, reason = text.removeprefix("flag ").partition(": ")
  name, _, value = argument.removeprefix("--").partition("=")
  _, of_config, field = name.rpartition("config.")
  if of_config and field in field_values:
    return overrides.describe_wrong_type(argument, field_values[field])
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
