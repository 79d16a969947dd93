"""Algorithms by name."""

import difflib
import importlib

from agents import core

# name in a config: module with a `Builder`. Imported when asked for, so that
# no run pays for another algorithm's imports.
_BUILDERS = {
  "dqn": "agents.dqn.builder",
  "r2d2": "agents.r2d2.builder",
}


def make_builder(name: str) -> core.Builder:
  """The builder of the algorithm `name`.

  Raises:
    ValueError: no algorithm has this name.
  """
  if name not in _BUILDERS:
    near = difflib.get_close_matches(name, _BUILDERS, n=1, cutoff=0.0)[0]
    raise ValueError(
      f"config.agent={name!r} is no algorithm, so nothing could learn: did "
      f"you mean {near!r}? There are: {', '.join(sorted(_BUILDERS))}"
    )
  return importlib.import_module(_BUILDERS[name]).Builder()
