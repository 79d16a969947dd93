"""Sections `environment` of configs, and specs, for tests."""

import contextlib

import gymnasium
import ml_collections
import numpy as np
import pytest
from acme import specs

from slipway.environments import factory

_specs = {}  # by the text of the environment section


def make_spec(environment):
  """Returns the spec of an `environment` section, cached for the process."""
  key = repr(environment.to_dict())
  if key not in _specs:
    _specs[key] = factory.make_spec(environment)
  return _specs[key]


def config_of(name, fields=None, **kwargs):
  """Returns an `environment` section with these fields and kwargs."""
  return ml_collections.ConfigDict(
    {"name": name, "kwargs": kwargs, **(fields or {})}
  )


def spec_of(shape=(4,), dtype=np.float32, actions=3, observations=None):
  """Returns the spec of an environment of which only the spaces matter.

  Args:
    shape: shape of an observation.
    dtype: type of an observation; uint8: an image.
    actions: number of discrete actions, or the spec of an action.
    observations: spec of an observation, in place of a shape and a type.
  """
  if observations is None:
    observations = specs.Array(shape, dtype)
    if dtype == np.uint8:
      observations = specs.BoundedArray(shape, dtype, 0, 255)
  if isinstance(actions, int):
    actions = specs.DiscreteArray(actions)
  return specs.EnvironmentSpec(
    observations=observations,
    actions=actions,
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0, 1),
  )


@contextlib.contextmanager
def one_line(kind=ValueError, match=None):
  """Expects an error whose message has one line, in place of pytest.raises."""
  with pytest.raises(kind, match=match) as caught:
    yield caught
  assert "\n" not in getattr(caught.value, "line", str(caught.value))


@contextlib.contextmanager
def registered(name, *args, **kwargs):
  """Registers an environment under an id until the block ends."""
  gymnasium.register(name, *args, **kwargs)
  try:
    yield
  finally:
    del gymnasium.registry[name]
