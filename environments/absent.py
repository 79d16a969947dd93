"""Absent: the environment of recorded episodes that is not on this machine."""

import os
from collections.abc import Collection

import gymnasium
import ml_collections
from minari import serialization

from slipway.environments import recordings

# Fields of section `environment` that change a real environment only.
_FIELDS = (
  *("kwargs", "wrappers", "frame_skip", "frame_stack", "time_limit"),
  *("asynchronous", "step_timeout_s"),
)


class Recorded(gymnasium.Env):
  """Environment that has the spaces of recorded episodes, but no steps."""

  def __init__(self, observation_space: str, action_space: str):
    """Makes the spaces from their texts, which Minari has written."""
    self.observation_space = serialization.deserialize_space(observation_space)
    self.action_space = serialization.deserialize_space(action_space)


def set_environment(
  config: ml_collections.ConfigDict,
  folder: str | os.PathLike[str],
  changed: Collection[str] = (),
) -> None:
  """Makes a config's environment `Recorded`, with the spaces of a recording.

  The config has the spaces themselves, so that policies can be loaded where the
  episodes are not.

  Args:
    config: section `environment` of a config.
    folder: folder of episodes, as for `recordings.read`.
    changed: names of the whole config's fields that the user has given.

  Raises:
    ValueError: there are no such episodes, or a field would have no effect.
  """
  for name in _FIELDS:
    if f"environment.{name}" in changed:
      raise ValueError(
        f"config.environment.{name}={config[name]!r} changes an environment, "
        "but config.environment.name='' names none, so it would have no "
        "effect: leave it out"
      )
  config.name, config.external = f"{__name__}:{Recorded.__name__}", True
  config.kwargs = ml_collections.ConfigDict(
    {
      name: serialization.serialize_space(space)
      for name, space in recordings.read_spaces(folder).items()
    }
  )
