"""What environments are made from."""

import ml_collections


def config_of(name, fields=None, **kwargs):
  """Returns an `environment` section of these fields and kwargs."""
  return ml_collections.ConfigDict(
    {"name": name, "kwargs": kwargs, **(fields or {})}
  )
