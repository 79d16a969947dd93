"""Catalog: the ready hooks by name, and hooks of the user by 'module:name'."""

import importlib.util
import inspect
import typing
from collections.abc import Sequence

from slipway.configs import names
from slipway.environments import user_code
from slipway.launch.hooks import event

# Versions that have been tried beside TensorFlow 2.12, whose protobuf and
# typing-extensions newer ones would replace.
_PINS = "'protobuf<5' 'typing-extensions<4.6'"


class _Ready(typing.NamedTuple):
  """A ready hook.

  Attributes:
    path: of its class.
    package: that it imports; '': none.
    install: arguments of pip for the package.
  """

  path: str
  package: str = ""
  install: str = ""


_READY = {
  "csv": _Ready("slipway.launch.hooks.csv_file:CsvFile"),
  "wandb": _Ready(
    "slipway.launch.hooks.wandb_run:WandbRun",
    "wandb",
    f"wandb==0.19.11 {_PINS}",
  ),
  "mlflow": _Ready(
    "slipway.launch.hooks.mlflow_run:MlflowRun",
    "mlflow",
    f"mlflow-skinny==2.9.2 {_PINS}",
  ),
}


def check(hooks: Sequence[str]) -> None:
  """Checks that hooks can be imported and called; makes none of them.

  Args:
    hooks: value of `config.hooks`.

  Raises:
    ValueError: one line: a hook does not exist, lacks its package, or can't be
      called with one argument.
    user_code.UserCodeError: the user's own code failed in the import.
  """
  for name in hooks:
    _find(name)


def make(name: str) -> event.Hook:
  """Returns a hook: a function, or an instance of a class.

  Args:
    name: of a ready hook, or 'module:name'.

  Raises:
    ValueError: as `check`, and so is UserCodeError.
  """
  found = _find(name)
  return found() if isinstance(found, type) else found


def _find(name: str) -> typing.Any:
  """Returns the function or class of a hook; raises as `check`."""
  shown = f"config.hooks has {name!r}"
  ready = _READY.get(name)
  if ready is None and ":" not in name:
    raise ValueError(
      f"{shown}, which is no ready hook, so nothing would be called: "
      f"{names.advise(name, _READY)}, or give 'module:name' of your own"
    )
  package = ready.package if ready else ""
  if ready and package and importlib.util.find_spec(package) is None:
    raise ValueError(
      f"{shown}, but this Python has no package {package!r}, so nothing would "
      f"be logged: run `pip install {ready.install}`"
    )
  path = ready.path if ready else name
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
  """Returns whether a function, or an instance of a class, takes an event."""
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
