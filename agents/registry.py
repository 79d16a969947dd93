"""Look-up of an algorithm's builder by name."""

import difflib
import importlib
import inspect
import pathlib

from slipway.agents import core
from slipway.configs import checks
from slipway.environments import user_code

# Names of the families: the folders with a builder. Each builder is imported on
# demand, so that no run imports other families.
FAMILIES = sorted(
  path.parent.name
  for path in pathlib.Path(__file__).parent.glob("*/builder.py")
)
# Method of `core.Builder` that a user's builder may lack, if its algorithm
# learns from recorded data only and so has no workers.
_OPTIONAL_METHODS = ("make_actor",)


def make_builder(name: str) -> core.Builder:
  """Returns a new builder of an algorithm.

  Args:
    name: `config.agent`: the name of a family, such as 'dqn', or 'module:Name'
      of a user's class that implements `core.Builder`.

  Raises:
    ValueError: there is no such algorithm, or its builder lacks a method.
    user_code.UserCodeError: the constructor of a user's builder failed.
  """
  if name in FAMILIES:
    return importlib.import_module(f"slipway.agents.{name}.builder").Builder()
  if not checks.is_user_code(name):
    near = difflib.get_close_matches(name, FAMILIES, n=1)
    advice = f"did you mean {near[0]}? " if near else ""
    raise ValueError(
      f"config.agent={name!r} is no algorithm, so nothing could learn: {advice}"
      f"give one of {', '.join(FAMILIES)}, or 'module:Name' of your own"
    )
  expected = "a class that implements slipway.agents.core.Builder"
  make = user_code.load(f"config.agent={name!r}", name, expected)
  try:
    builder = make()
  except BaseException as error:
    line = (
      f"config.agent={name!r} can't be made ({user_code.describe(error)}), so "
      f"nothing could learn: give {expected}, and whose constructor takes no "
      "arguments"
    )
    raise user_code.explain(line, error) from error
  missing = [
    x for x in _required_members(core.Builder) if not hasattr(builder, x)
  ]
  if missing:
    raise ValueError(
      f"config.agent={name!r} lacks {', '.join(missing)}, so nothing could "
      "learn: see slipway.agents.core.Builder"
    )
  return builder


def _required_members(protocol: type) -> list[str]:
  return [
    name
    for name, value in vars(protocol).items()
    if not name.startswith("_")
    and name not in _OPTIONAL_METHODS
    and (inspect.isfunction(value) or isinstance(value, property))
  ]
