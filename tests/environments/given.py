"""What environments are made from."""

import ml_collections


def config_of(name, **kwargs):
  return ml_collections.ConfigDict({"name": name, "kwargs": kwargs})
