"""Overrides: loads a config, and sets fields that a command line names."""

import os
import pathlib
import sys
import textwrap
import types
import typing
from collections.abc import Collection, Sequence
from importlib import machinery

import ml_collections

from slipway.agents import registry
from slipway.configs import base, catalog, recipes, typed_config
from slipway.configs import fields as fields_lib
from slipway.environments import user_code
from slipway.launch.runs import config_file

# Config of `slipway train` without --config.
DEFAULT_CONFIG = "ppo:cartpole"
# Configs of runs without --config that name an environment, by whether all its
# actions are continuous: they take observations and rewards of any size.
GENERIC_CONFIGS = {False: "ppo:generic", True: "sac:generic"}
# Prefix of the flag that overrides a field: --config.FIELD=VALUE.
PREFIX = "config."
# Field names of the environment's keyword arguments, before an argument's name.
_KWARGS = ("environment.kwargs.", "evaluation.environment.kwargs.")


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
    return typed_config.TypedConfig(module.get_config(*preset).to_dict())
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
  """Returns help about a config: each field's flag, value and meaning."""
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


def find_changes_of_environment(arguments: Sequence[str]) -> list[str]:
  """Returns the arguments that set fields of `environment` except its name."""
  return [
    x
    for x in arguments
    if is_override(x)
    and (field := get_field(x)).startswith("environment.")
    and field != "environment.name"
  ]


def apply(
  config: ml_collections.ConfigDict, arguments: Sequence[str]
) -> set[str]:
  """Sets the fields of a config that a command line names.

  Of several values of a field, the last one counts; a tuple gets the items of
  all of them.

  Args:
    config: the config, which is changed.
    arguments: '--config.FIELD=VALUE', or '--config.FIELD' and
      '--noconfig.FIELD' for a bool.

  Returns:
    The names of the fields.

  Raises:
    ValueError: there is no such field, another flag sets it, or the value has
      another type.
  """
  declared, changed = declared_fields(config), set()
  # First, so that it removes no argument that is given here.
  for argument in sorted(arguments, key=lambda x: not _removes_kwargs(x)):
    field = get_field(argument)
    if _removes_kwargs(argument):
      fields_lib.get(config, field.rpartition(".")[0])["kwargs"] = (
        ml_collections.ConfigDict()
      )
    elif field.startswith(_KWARGS):
      _set_kwarg(config, field, argument)
    else:
      _check_name(field, argument, declared)
      section, _, last = field.rpartition(".")
      target = fields_lib.get(config, section) if section else config
      old = target[last]
      value = _parse(argument, declared[field].default, old)
      is_more = isinstance(value, tuple) and field in changed
      with target.ignore_type():  # that of `old` may be wrong
        target[last] = old + value if is_more else value
    changed.add(field)
  return changed


def get_field(argument: str) -> str:
  """Returns the name of the field that an argument of `apply` sets."""
  flag = argument.partition("=")[0].lstrip("-")
  return flag.removeprefix("no").removeprefix(PREFIX)


def is_override(argument: str) -> bool:
  """Returns whether an argument of a command line is one for `apply`."""
  return argument.lstrip("-").startswith((PREFIX, f"no{PREFIX}"))


def _removes_kwargs(argument: str) -> bool:
  """Returns whether an argument removes the environment's arguments."""
  text = argument.partition("=")[2]
  return f"{get_field(argument)}." in _KWARGS and text.strip() == "{}"


def _check_name(field: str, argument: str, known: Collection[str]) -> None:
  """Raises ValueError unless an argument names a field that it can set."""
  shown = fields_lib.shorten(argument)
  if field == "mode":
    raise ValueError(
      f"{shown}: only --mode sets the mode, so this would have no effect: "
      "give --mode=VALUE"
    )
  if f"{field}." in _KWARGS:
    raise ValueError(
      f"{shown}: each keyword argument has a flag of its own, so nothing "
      f"would change: give --{PREFIX}{field}.NAME=VALUE, or {{}} to remove the "
      "preset's"
    )
  if field not in known:
    raise ValueError(
      f"{shown}: the config has no field {fields_lib.format_value(field)}, "
      "so nothing would change: "
      f"{fields_lib.advise(field, known, f'--{PREFIX}')}"
    )


def _parse(argument: str, like: typing.Any, old: typing.Any) -> typing.Any:
  """Returns the value of an argument for a field whose type is `like`'s."""
  if isinstance(like, bool) and "=" not in argument:
    return not argument.lstrip("-").startswith("no")
  text = _get_text(argument)
  try:
    return typed_config.parse(text, like)
  except ValueError:
    raise ValueError(_describe_wrong_type(argument, old)) from None


def _get_text(argument: str) -> str:
  """Returns the text of an argument's value."""
  flag, given, text = argument.partition("=")
  name = flag.lstrip("-").removeprefix("no")
  if not given or not flag.lstrip("-").startswith(name):
    raise ValueError(
      f"{fields_lib.shorten(argument)} has no value, so nothing would change: "
      f"give --{name}=VALUE"
    )
  return text


def _describe_wrong_type(argument: str, old: typing.Any) -> str:
  """Returns the error message about a value of a wrong type."""
  items = " (separated by commas)" if isinstance(old, tuple) else ""
  return (
    f"{fields_lib.shorten(argument)}: the field's type is "
    f"{fields_lib.type_name(old)}{items}, so this value can't be used; it "
    f"is {old!r} by default"
  )


def _set_kwarg(
  config: ml_collections.ConfigDict, field: str, argument: str
) -> None:
  """Sets a keyword argument of the environment, a Python literal or a text."""
  (prefix,) = filter(field.startswith, _KWARGS)
  target = fields_lib.get(config, prefix.rstrip("."))
  name = field.removeprefix(prefix)
  value = typed_config.parse_literal(_get_text(argument))
  old = target.get(name)
  if isinstance(old, float) and type(value) is int:
    value = float(value)
  if not isinstance(old, (types.NoneType, type(value))):
    raise ValueError(_describe_wrong_type(argument, old))
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
