"""Algorithms by name."""

import importlib

from slipway.agents import core
from slipway.configs import parts

# name in a config: module with a `Builder`. Imported on demand, so that no run
# pays for another algorithm's imports.
_BUILDERS = {
  "bc": "slipway.agents.bc.builder",
  "dqn": "slipway.agents.dqn.builder",
  "ppo": "slipway.agents.ppo.builder",
  "r2d2": "slipway.agents.r2d2.builder",
  "sac": "slipway.agents.sac.builder",
}
# Either workers write to a table, or there are batches of recorded data.
_OPTIONAL = ("make_batches", "make_adder", "make_actor")


def make_builder(name: str) -> core.Builder:
  """Returns the builder of an algorithm.

  Args:
    name: of a family of agents/, or 'module:Name' of a class that implements
      `core.Builder`.

  Raises:
    ValueError: one line: there is no such algorithm, or it lacks a method.
  """
  if name in _BUILDERS:
    return importlib.import_module(_BUILDERS[name]).Builder()
  if not parts.is_own(name):
    raise ValueError(
      f"config.agent={name!r} is no algorithm, so nothing could learn: "
      f"{parts.advise(name, _BUILDERS)}"
    )
  wanted = "a class that implements slipway.agents.core.Builder"
  make = parts.load("config.agent", name, wanted)
  try:
    builder = make()
  except TypeError as error:
    raise ValueError(
      f"config.agent={name!r} can't be made ({error}), so nothing could learn: "
      f"give {wanted}, whose constructor takes no arguments"
    ) from error
  parts.check_members("config.agent", name, builder, core.Builder, _OPTIONAL)
  return builder
