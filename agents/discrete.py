"""Checks and specs of discrete actions, for learners of action values."""

import math

import ml_collections
from acme import specs

from slipway.agents.networks import action_masks, heads, torsos
from slipway.environments import arrays


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises an error if action values can't be learned in an environment.

  Actions must be discrete, with at most `arrays.MAX_JOINT_ACTIONS` joint
  actions, and the torso must accept the observations.

  Raises:
    ValueError: a field does not fit the environment.
  """
  sizes = arrays.component_sizes(spec.actions)
  if sizes is None:
    raise ValueError(
      f"config.agent={config.agent!r} chooses among discrete actions, but "
      f"config.environment.name={config.environment.name!r} takes "
      f"{spec.actions.dtype} {list(spec.actions.shape)}: choose another "
      "environment, or an algorithm for continuous actions, such as ppo or sac"
    )
  joint = isinstance(spec.actions, arrays.MultiDiscreteArray)
  if joint and math.prod(sizes) > arrays.MAX_JOINT_ACTIONS:
    raise ValueError(
      f"config.agent={config.agent!r} learns a value per joint action, but "
      f"config.environment.name={config.environment.name!r} has "
      f"{math.prod(sizes)}, of {len(sizes)} components, more than "
      f"{arrays.MAX_JOINT_ACTIONS}: use --config=ppo or another environment"
    )
  _check_support(config.network, spec)
  torsos.check(config.network, spec)


def _check_support(
  network: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError if masked actions could have values above legal ones."""
  is_masked = isinstance(spec.observations, arrays.MaskedArray)
  if not is_masked or network.get("head") != "categorical":
    return
  if not heads.has_support(network):
    return
  for name in ("lowest_return", "highest_return"):
    if not abs(network[name]) <= action_masks.LARGEST_VALUE:
      raise ValueError(
        f"config.network.{name}={network[name]!r} exceeds "
        f"{action_masks.LARGEST_VALUE:g}, so the values of illegal actions "
        "could exceed those of legal ones: give smaller returns, or "
        "--config.environment.action_mask=false"
      )


def number_actions(spec: specs.EnvironmentSpec) -> specs.EnvironmentSpec:
  """Returns an environment's spec with multi-discrete actions numbered.

  Multi-discrete actions become an `arrays.JointActionArray`, with one number
  per joint action. Specs with other actions are returned unchanged.
  """
  if isinstance(spec.actions, arrays.MultiDiscreteArray):
    joint = arrays.JointActionArray(spec.actions.sizes, spec.actions.name)
    return spec._replace(actions=joint)
  return spec


def make_mask_splitter(
  spec: specs.EnvironmentSpec,
) -> action_masks.MaskSplitter | None:
  """Returns a splitter that separates action masks from observations.

  The result is None if the observations have no masks.
  """
  if not isinstance(spec.observations, arrays.MaskedArray):
    return None
  return action_masks.MaskSplitter(number_actions(spec))
