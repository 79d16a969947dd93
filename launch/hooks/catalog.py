"""Catalog: finds built-in hooks by name, and user hooks by 'module:name'."""

import importlib.util
import inspect
import typing
from collections.abc import Callable, Sequence

from slipway.configs import names
from slipway.environments import user_code
from slipway.launch.hooks import event

# Argument of `pip install` that keeps the protobuf that TensorFlow 2.15 needs.
_PINNED_REQUIREMENTS = "'protobuf<5'"


class _BuiltIn(typing.NamedTuple):
  """Class and optional package of a built-in hook.

  Attributes:
    path: the class as 'module:name'.
    package: the optional package that the hook imports.
    install: arguments of `pip install` for the package.
  """

  path: str
  package: str
  install: str


# Built-in hooks, by their name in `config.hooks`.
_BUILT_IN = {
  "wandb": _BuiltIn(
    "slipway.launch.hooks.wandb_run:WandbRun",
    "wandb",
    f"wandb {_PINNED_REQUIREMENTS}",
  ),
  "mlflow": _BuiltIn(
    "slipway.launch.hooks.mlflow_run:MlflowRun",
    "mlflow",
    # 3 takes no folder for its runs unless a variable allows it.
    f"'mlflow-skinny<3' {_PINNED_REQUIREMENTS}",
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
    if hooks.count(name) > 1:
      raise ValueError(
        f"config.hooks has {name!r} twice, so each event would be logged "
        "twice: name it once"
      )


def make(name: str) -> event.Hook:
  """Imports a hook, and returns the function or object that events call.

  A class is instantiated without arguments.

  Args:
    name: name of a built-in hook, or 'module:name'.

  Raises:
    ValueError: the hook can't be used; see `check`.
    user_code.UserCodeError: the user's own code failed in the import.
  """
  found = _find_hook(name)
  return found() if isinstance(found, type) else found


def _find_hook(name: str) -> typing.Any:
  """Imports a hook, and returns its function or class."""
  setting = f"config.hooks has {name!r}"
  built_in = _BUILT_IN.get(name)
  if built_in is None and ":" not in name:
    raise ValueError(
      f"{setting}, which is no built-in hook, so nothing would be called: "
      f"{names.advise(name, _BUILT_IN)} (or 'module:name' of your own)"
    )
  if built_in and importlib.util.find_spec(built_in.package) is None:
    raise ValueError(
      f"{setting}, but this Python has no package {built_in.package!r}, so "
      f"nothing would be logged: run `pip install {built_in.install}`"
    )
  path = built_in.path if built_in else name
  found = user_code.load(f"{setting}, which", path, "a function or class")
  if built_in is None and not _takes_event(found):
    raise ValueError(
      f"{setting}, of type {type(found).__name__}, which can't be called with "
      "one argument, so each event would fail: define it as `def "
      "notify(event)`, or as a class with a method __call__(self, event)"
    )
  return found


def _takes_event(hook: typing.Any) -> bool:
  """Returns whether a hook can be called with one argument, the event."""
  try:
    if not isinstance(hook, type):
      inspect.signature(hook).bind(None)
    elif issubclass(hook, Callable):
      inspect.signature(hook).bind()
      inspect.signature(hook.__call__).bind(None, None)
    else:
      return False
  except TypeError:
    return False
  except ValueError:  # a function without a signature, such as one in C
    return True
  return True
