"""Algorithms by name."""

import difflib
import importlib

from slipway.agents import core

# name in a config: module with a `Builder`. Imported on demand, so that no run
# pays for another algorithm's imports.
_BUILDERS = {
  "bc": "slipway.agents.bc.builder",
  "dqn": "slipway.agents.dqn.builder",
  "ppo": "slipway.agents.ppo.builder",
  "r2d2": "slipway.agents.r2d2.builder",
  "sac": "slipway.agents.sac.builder",
}


def make_builder(name: str) -> core.Builder:
  """Returns the builder of an algorithm.

  Args:
    name: of a family of agents/, or 'module:Name' of a class that implements
      `core.Builder`.

  Raises:
    ValueError: one line: there is no such algorithm.
  """
  module, _, attribute = name.partition(":")
  if not attribute:
    if name not in _BUILDERS:
      raise ValueError(
        f"config.agent={name!r} is no algorithm, so nothing could learn: "
        f"{_advise(name)}"
      )
    module, attribute = _BUILDERS[name], "Builder"
  try:
    builder = getattr(importlib.import_module(module), attribute)()
    if not hasattr(builder, "fields"):
      raise TypeError(f"a {type(builder).__name__} has no fields")
    return builder
  # No module has the name '', and none is relative to another.
  except (ImportError, AttributeError, TypeError, ValueError) as error:
    raise ValueError(
      f"config.agent={name!r} can't be imported ({error}), so nothing could "
      "learn: give 'module:Name' of a class that implements "
      "slipway.agents.core.Builder, in a module on the Python path"
    ) from error


def _advise(name: str) -> str:
  known = f"the algorithms are {', '.join(_BUILDERS)}, or 'module:Name'"
  near = difflib.get_close_matches(name, _BUILDERS, n=1)
  return f"did you mean {near[0]!r}? {known}" if near else known
