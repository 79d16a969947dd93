"""Discrete actions: what algorithms of action values need of an environment."""

import math

import ml_collections
from acme import specs

from slipway.agents.networks import action_masks, torsos
from slipway.environments import arrays


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Checks that actions can be numbered, and that the torso fits.

  Args:
    config: the whole config.
    spec: of one environment.

  Raises:
    ValueError: one line with what doesn't fit.
  """
  sizes = arrays.component_sizes(spec.actions)
  if sizes is None:
    raise ValueError(
      f"config.agent={config.agent!r} chooses among discrete actions, but "
      f"config.environment.name={config.environment.name!r} takes "
      f"{spec.actions.dtype} {list(spec.actions.shape)}: choose another "
      "environment"
    )
  joint = isinstance(spec.actions, arrays.MultiDiscreteArray)
  if joint and math.prod(sizes) > arrays.MAX_JOINT_ACTIONS:
    raise ValueError(
      f"config.agent={config.agent!r} has a value for each joint action, but "
      f"config.environment.name={config.environment.name!r} has "
      f"{math.prod(sizes)}, of {len(sizes)} components, more than "
      f"{arrays.MAX_JOINT_ACTIONS}: use --config=ppo or another environment"
    )
  torsos.check(config.network, spec)


def number_actions(spec: specs.EnvironmentSpec) -> specs.EnvironmentSpec:
  """Returns a spec whose actions are numbers, also those of components."""
  if isinstance(spec.actions, arrays.MultiDiscreteArray):
    joint = arrays.JointActionArray(spec.actions.sizes, spec.actions.name)
    return spec._replace(actions=joint)
  return spec


def make_mask(
  spec: specs.EnvironmentSpec,
) -> action_masks.ActionMask | None:
  """Makes the mask of an environment's numbered actions; None: it has none."""
  if not isinstance(spec.observations, arrays.MaskedArray):
    return None
  return action_masks.ActionMask(number_actions(spec))
