"""Sections `environment` of configs, and their specs, for tests."""

import ml_collections

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
