"""What agents of discrete actions ask of an environment."""

import ml_collections
from acme import specs

from slipway.agents.networks import torsos


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Checks that actions are discrete, and that the torso takes observations.

  Args:
    config: the whole config.
    spec: of one environment.

  Raises:
    ValueError: one line with what doesn't fit.
  """
  if not isinstance(spec.actions, specs.DiscreteArray):
    raise ValueError(
      f"config.agent={config.agent!r} chooses among discrete actions, but "
      f"config.environment.name={config.environment.name!r} takes "
      f"{spec.actions.dtype} {list(spec.actions.shape)}: choose another "
      "environment"
    )
  torsos.check(config.network, spec)
