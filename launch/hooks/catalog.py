"""Catalog: finds built-in hooks by name, and user hooks by 'module:name'."""

import importlib.util
import inspect
import typing
from collections.abc import Sequence

from slipway.configs import names
from slipway.environments import user_code
from slipway.launch.hooks import event

# Further requirements, so that pip keeps the versions of protobuf and
# typing-extensions with which TensorFlow 2.12 works.
_PINS = "'protobuf<5' 'typing-extensions<4.6'"


class _BuiltIn(typing.NamedTuple):
  """A built-in hook.

  Attributes:
    path: the class as 'module:name'.
    package: the optional package that the hook imports, or '' for none.
    install: arguments of `pip install` for the package.
  """

  path: str
  package: str = ""
  install: str = ""


_BUILT_IN = {
  "csv": _BuiltIn("slipway.launch.hooks.csv_file:CsvFile"),
  "wandb": _BuiltIn(
    "slipway.launch.hooks.wandb_run:WandbRun",
    "wandb",
    f"wandb==0.19.11 {_PINS}",
  ),
  "mlflow": _BuiltIn(
    "slipway.launch.hooks.mlflow_run:MlflowRun",
    "mlflow",
    f"mlflow-skinny==2.9.2 {_PINS}",
  ),
}


def check(hooks: Sequence[str]) -> None:
  """Checks that hooks can be imported and called, without calling them.

  Args:
    hooks: the names in `config.hooks`.

  Raises:
    ValueError: a hook does not exist, lacks its package, or can't be
      called with one argument.
    user_code.UserCodeError: the user's own code failed in the import.
  """
  for name in hooks:
    _find_hook(name)


def make(name: str) -> event.Hook:
  """Returns a hook: a function, or an instance of a class.

  Args:
    name: name of a built-in hook, or 'module:name'.

  Raises:
    ValueError: the hook can't be used; see `check`.
    user_code.UserCodeError: the user's own code failed in the import.
  """
  found = _find_hook(name)
  return found() if isinstance(found, type) else found


def _find_hook(name: str) -> typing.Any:
  """Returns the function or class of a hook; raises the errors of `check`."""
  shown = f"config.hooks has {name!r}"
  built_in = _BUILT_IN.get(name)
  if built_in is None and ":" not in name:
    raise ValueError(
      f"{shown}, which is no built-in hook, so nothing would be called: "
      f"{names.advise(name, _BUILT_IN)}, or give 'module:name' of your own"
    )
  package = built_in.package if built_in else ""
  if built_in and package and importlib.util.find_spec(package) is None:
    raise ValueError(
      f"{shown}, but this Python has no package {package!r}, so nothing would "
      f"be logged: run `pip install {built_in.install}`"
    )
  path = built_in.path if built_in else name
  found = user_code.load(f"{shown}, which", path, "a function or class")
  called = found.__call__ if isinstance(found, type) else found
  is_class_without_call = isinstance(found, type) and not any(
    "__call__" in base.__dict__ for base in found.__mro__
  )
  if is_class_without_call or not callable(called):
    raise ValueError(
      f"{shown}, a {type(found).__name__} that can't be called, so nothing "
      "would happen: give a function, or a class with a method __call__"
    )
  if not _takes_event(found):
    raise ValueError(
      f"{shown}, which can't be called with one argument, so each event would "
      "fail: define it as `def notify(event)`"
    )
  return found


def _takes_event(found: typing.Any) -> bool:
  """Returns whether a hook can be called with one argument, the event."""
  try:
    if isinstance(found, type):
      inspect.signature(found).bind()
      inspect.signature(found.__call__).bind(None, None)
    else:
      inspect.signature(found).bind(None)
  except TypeError:
    return False
  except ValueError:  # a function without a signature, such as one in C
    return True
  return True
