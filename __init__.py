"""Distributed reinforcement learning: see README.md."""

import importlib
import typing

__version__ = "0.1.0"

# The module of each public name, imported at the first use: a command that does
# not need TensorFlow starts without it.
_PUBLIC = {
  "RunEndedError": "slipway.launch.external",
  "connect": "slipway.launch.external",
}


def __getattr__(name: str) -> typing.Any:
  if name not in _PUBLIC:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return getattr(importlib.import_module(_PUBLIC[name]), name)
