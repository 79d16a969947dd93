"""Overrides: loads a config, and checks the flags that override its fields."""

import ast
import os
import pathlib
import sys
import textwrap
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from importlib import machinery

import ml_collections

from slipway.agents import registry
from slipway.configs import base, catalog, recipes
from slipway.configs import fields as fields_lib
from slipway.environments import user_code
from slipway.launch.runs import config_file

# Config of `slipway train` without --config.
DEFAULT_CONFIG = "apex_dqn:cartpole"
# Prefix of the flag that overrides a field: --config.FIELD=VALUE.
PREFIX = "config."
# Spellings of bools that are no Python literals.
_BOOLS = {"true": True, "false": False}
# Field name of the environment's keyword arguments, before an argument's name.
_KWARGS = "environment.kwargs."


class CommandLine(typing.NamedTuple):
  """The arguments of a command line in three groups, from `split`.

  Attributes:
    argv: the program's name and the arguments that are not in the other groups.
    sources: value of --config under the key 'config', and of --resume under
      'resume'; only those that are given.
    kwargs: texts of the environment's keyword arguments, by name.
    keeps_kwargs: False if `--config.environment.kwargs={}` removes the
      arguments that the config has.
  """

  argv: list[str]
  sources: dict[str, str]
  kwargs: dict[str, str]
  keeps_kwargs: bool = True


def split(argv: Sequence[str]) -> CommandLine:
  """Separates --config, --resume and environment arguments from other flags.

  A config must be read before its fields can become flags. An environment's
  keyword arguments need not be fields of the config, so they can't be flags.

  Args:
    argv: the program's name and its arguments.

  Raises:
    ValueError: a keyword argument has no value, or one of the other two is
      given twice.
  """
  sources, kwargs, rest, keeps_kwargs = {}, {}, [], True
  arguments = iter(argv[1:])
  for argument in arguments:
    flag, given, value = argument.partition("=")
    name = flag.lstrip("-")
    if flag in ("--config", "-config", "--resume", "-resume"):
      if name in sources:
        raise ValueError(
          f"--{name} is given twice, and {sources[name]!r} would have no "
          "effect: give one of them"
        )
      sources[name] = value if given else next(arguments, "")
    elif name == PREFIX + _KWARGS.rstrip(".") and value.strip() == "{}":
      keeps_kwargs = False
    elif name.startswith(PREFIX + _KWARGS):
      if not given:
        raise ValueError(
          f"{flag} has no value, so the environment would not get it: give "
          f"{flag}=VALUE"
        )
      kwargs[name.removeprefix(PREFIX + _KWARGS)] = value
    else:
      rest.append(argument)
  return CommandLine([argv[0], *rest], sources, kwargs, keeps_kwargs)


def load(path: str) -> ml_collections.ConfigDict:
  """Loads a config by its name or path, and checks the names of its fields.

  The values are checked later, with the overrides, because some fields have no
  valid default.

  Args:
    path: 'NAME' or 'NAME:PRESET', where NAME is a built-in algorithm or the
      path of a '.py' file; or the path of a run's config.json.

  Raises:
    ValueError: there is no such algorithm, file or preset, or the config's
      fields are not those of its algorithm.
    user_code.UserCodeError: the file's own code failed.
  """
  config = _read(path)
  try:
    fields = declared_fields(config)
    config = fields_lib.convert_numbers(config, fields)
    fields_lib.check_names(config, fields)
  except ValueError as error:
    raise ValueError(f"--config={path}: {error}") from error
  return config


def _read(path: str) -> ml_collections.ConfigDict:
  """Reads a config by its name or path; see `load`."""
  flag = f"--config={path}"
  path = os.path.expanduser(path)
  if path.endswith(".json"):  # a run's config
    try:
      return config_file.from_json(pathlib.Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
      raise ValueError(
        f"{flag} can't be read ({error}), so there is nothing to run: give "
        "the config.json of a run"
      ) from error
  name, *preset = path.split(":", 1)
  file = (
    name if name.endswith(".py") else str(catalog.find_config_file(name) or "")
  )
  if not path:
    raise ValueError(
      "--config has no value, so there is nothing to run: give "
      f"--config=ALGORITHM:PRESET, such as {DEFAULT_CONFIG}"
    )
  if not pathlib.Path(file).is_file():
    is_path = name.endswith(".py")
    similar_to = ":".join([pathlib.PurePath(name).stem, *preset])
    near = catalog.find_similar(similar_to if is_path else path)
    advice = f"did you mean {near}? " if near else ""
    reason = (
      f"there is no file {name!r}" if is_path else "it names no algorithm"
    )
    raise ValueError(
      f"{flag} can't be read, since {reason}, so there is nothing to run: "
      f"{advice}give ALGORITHM:PRESET as `slipway list` shows them, or the "
      "path of a .py file"
    )
  if name.endswith(".py"):
    # The file may import modules of its folder, as a script may, unless other
    # modules have the same name.
    sys.path.append(str(pathlib.Path(file).resolve().parent))
  try:
    loader = machinery.SourceFileLoader("config_config", file)
    module = types.ModuleType(loader.name)
    module.__file__ = file
    sys.modules[loader.name] = module  # dataclasses look their module up
    loader.exec_module(module)
    return ml_collections.ConfigDict(module.get_config(*preset).to_dict())
  except recipes.UnknownPresetError as error:
    raise ValueError(f"{flag}: {error}") from error
  except KeyboardInterrupt:
    raise
  except BaseException as error:
    text = user_code.describe(error)
    line = user_code.find_line(error, file)
    if line is None:
      raise ValueError(
        f"{flag} is no config ({text}), so there is nothing to run: give a "
        "Python file with a get_config(preset)"
      ) from error
    raise user_code.UserCodeError(
      f"{flag}: line {line} of {file} failed ({text}), so there is nothing to "
      "run: correct the file",
      error,
    ) from error


def declared_fields(config: ml_collections.ConfigDict) -> fields_lib.Fields:
  """Returns the declarations of all fields that a config must have.

  Args:
    config: config whose field `agent` names the algorithm; other fields are
      not read.

  Raises:
    ValueError: config.agent is missing, or is no known algorithm.
  """
  agent = config.get("agent")
  base.check("agent", agent)
  return registry.make_builder(typing.cast(str, agent)).fields


def help_text(
  config: ml_collections.ConfigDict, fields: fields_lib.Fields
) -> str:
  """Returns help about a config: each field's flag, value and meaning.

  Args:
    config: the config with the values.
    fields: the config's fields, from `declared_fields`.
  """
  lines = []
  for name, field in fields.items():
    value = fields_lib.get(config, name)
    flag = "mode" if name == "mode" else f"{PREFIX}{name}"
    if isinstance(value, ml_collections.ConfigDict):
      lines.append(f"  --{flag}.NAME=VALUE, now {value.to_dict()}")
    else:
      lines.append(f"  --{flag}={value}")
    lines += textwrap.wrap(
      field.meaning, 80, initial_indent="    ", subsequent_indent="    "
    )
  return "\n".join(lines)


def check_names(argv: Sequence[str], known: Collection[str]) -> None:
  """Checks that each flag --config.FIELD names a field that it can set.

  Args:
    argv: the program's name and its arguments.
    known: the names of the config's fields.

  Raises:
    ValueError: there is no such field, or another flag sets it.
  """
  for argument in argv[1:]:
    name = argument.lstrip("-").partition("=")[0]
    field = name.removeprefix("no").removeprefix(PREFIX)
    if not name.startswith((PREFIX, "no" + PREFIX)):
      continue
    shown = fields_lib.shorten(argument)
    if field == "mode":
      raise ValueError(
        f"{shown}: only --mode sets the mode, so this would have no effect: "
        "give --mode=VALUE"
      )
    if f"{field}." == _KWARGS:
      raise ValueError(
        f"{shown}: each keyword argument has a flag of its own, so nothing "
        f"would change: give --{PREFIX}{_KWARGS}NAME=VALUE, or {{}} to remove "
        "the preset's"
      )
    if field not in known:
      raise ValueError(
        f"{shown}: the config has no field {fields_lib.format_value(field)}, "
        "so nothing would change: "
        f"{fields_lib.advise(field, known, f'--{PREFIX}')}"
      )


def quote_names(
  argv: Sequence[str], before: Mapping[str, typing.Any]
) -> list[str]:
  """Returns a command line in which lists of names are Python tuples.

  So a user can write `--config.hooks=wandb,my_hooks:notify`, which becomes
  `--config.hooks=('wandb', 'my_hooks:notify')`.

  Args:
    argv: the program's name and its arguments.
    before: the config's values by field name, without the overrides.
  """
  quoted = []
  arguments = iter(argv)
  for argument in arguments:
    flag, given, value = argument.partition("=")
    old = before.get(flag.lstrip("-").removeprefix(PREFIX))
    holds_names = isinstance(old, tuple) and {*map(type, old)} <= {str}
    if holds_names and not given:  # the value is the next argument, if any
      value = next(arguments, "")
      given = "=" if value else ""
    if holds_names and given and not value.startswith(("(", "[", "'", '"')):
      value = repr(tuple(x.strip() for x in value.split(",") if x.strip()))
    quoted.append(f"{flag}{given}{value}")
  return quoted


def check_items(
  config: ml_collections.ConfigDict, before: Mapping[str, typing.Any]
) -> None:
  """Checks that overrides keep the types of the items of tuples.

  The parser of the flags checks only the types of other values.

  Args:
    config: the config with the overrides.
    before: the config's values by field name, without the overrides.

  Raises:
    ValueError: a tuple has items of another type than before.
  """
  for name, value in fields_lib.flatten(config).items():
    old = before.get(name)
    if not isinstance(old, tuple):
      continue
    types_before = {*map(type, old or ("",))}  # an empty tuple is for strings
    if {*map(type, value)} - types_before:
      raise ValueError(describe_wrong_type(f"--{PREFIX}{name}={value}", old))


def describe_wrong_type(argument: str, default: typing.Any) -> str:
  """Returns the error message about an override with a value of a wrong type.

  Args:
    argument: the override, '--config.FIELD=VALUE'.
    default: the field's value without the override.
  """
  items = " (separated by commas)" if isinstance(default, tuple) else ""
  return (
    f"{fields_lib.shorten(argument)}: the field's type is "
    f"{fields_lib.type_name(default)}{items}, so this value can't be used; it "
    f"is {default!r} by default"
  )


def set_kwargs(
  config: ml_collections.ConfigDict, kwargs: Mapping[str, str]
) -> None:
  """Sets keyword arguments of the environment in a config.

  Args:
    config: the whole config, which is changed.
    kwargs: values as text, by name. A text that is not a Python literal stays
      a string.

  Raises:
    ValueError: a value has another type than in the config.
  """
  target = config.environment.kwargs
  for name, text in kwargs.items():
    try:  # other flags take true and false, too
      value = _BOOLS.get(text)
      value = ast.literal_eval(text) if value is None else value
    # Deep nesting and `{[]: 1}` raise errors of other types.
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
      value = text
    old = target.get(name)
    if isinstance(old, float) and type(value) is int:
      value = float(value)
    argument = f"--{PREFIX}{_KWARGS}{name}={text}"
    if not isinstance(old, (types.NoneType, type(value))):
      raise ValueError(describe_wrong_type(argument, old))
    try:
      if not name.isidentifier():
        raise ValueError("an argument's name is a Python identifier")
      with target.unlocked():
        target[name] = value
    # ConfigDict raises several types of errors for impossible names.
    except (ValueError, KeyError, TypeError, AttributeError) as error:
      raise ValueError(
        f"{fields_lib.shorten(argument)} can't be the environment's argument: "
        f"{' '.join(str(error).split())}"
      ) from error
