"""Networks of features, which policy and critics share."""

import typing

import numpy as np
from acme import specs

from slipway.agents.networks import (
  action_masks,
  cores,
  policy_network,
  recurrent,
  torsos,
)
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

Array = layers_lib.Array  # np.ndarray or tf.Tensor

# Scope of the variables of a recurrent encoder, whose torso is not the one of
# the policy after it.
_SCOPE = "memory"


class EncoderNetwork:
  """Declaration of a torso without linear layers, which networks can share.

  Attributes:
    spec: spec of the environment with features [F] in place of observations,
      from which networks on these features are declared. Action masks stay.
  """

  needs_random, prefers_numpy = False, True

  def __init__(
    self, spec: specs.EnvironmentSpec, settings: layers_lib.TorsoSettings
  ):
    self.inputs = (spec.observations,)
    self._settings = settings
    self._mask_splitter = action_masks.MaskSplitter(spec)
    size = torsos.count_features(settings, self._mask_splitter.observations)
    self.spec = _replace_observations(spec, size)

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns features [B, F] of observations [B, ...].

    Those of masked observations are followed by the masks.
    """
    unmasked, _ = self._mask_splitter.split(layers.ops, observation)
    features = torsos.encode(
      layers, self._settings, unmasked, self._mask_splitter.observations
    )
    return _append_mask(layers.ops, features, observation, self.inputs[0])


class RecurrentEncoder:
  """Declaration of a torso and a core, whose features networks can share.

  Attributes:
    inputs: as of `recurrent.RecurrentTorso`.
    spec: as of `EncoderNetwork`.
  """

  needs_random = False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    settings: layers_lib.TorsoSettings,
    core: cores.Core,
  ):
    self._torso = recurrent.RecurrentTorso(spec, settings, core, _SCOPE)
    self.inputs = self._torso.inputs
    self.prefers_numpy = self._torso.prefers_numpy
    *inputs, state = (np.zeros((2, *x.shape), x.dtype) for x in self.inputs)
    features = self._torso.step(
      layers_lib.make_trial_layers(layers_lib.VariableShapes()),
      recurrent.Inputs(*inputs),
      state,
    )
    self.spec = _replace_observations(spec, features.hidden.shape[1])

  def __call__(
    self, layers: layers_lib.Layers, *inputs: Array
  ) -> tuple[Array, Array]:
    """Returns features [B, F] of one step, and the state [B, S] after it.

    Args:
      *inputs: fields of `recurrent.Inputs` [B, ...], then the state [B, S].
    """
    *fields, state = inputs
    step = recurrent.Inputs(*fields)
    found = self._torso.step(layers, step, state)
    features = _append_mask(
      layers.ops, found.hidden, step.observation, self.inputs[0]
    )
    return features, found.state

  def unroll(
    self, layers: layers_lib.Layers, inputs: recurrent.Inputs, state: Array
  ) -> tuple[Array, Array]:
    """Returns features [B, T, F] of T steps, and the state [B, S] after them.

    Args:
      inputs: inputs of the steps, [B, T, ...] each; T must be static.
      state: states before the first step, [B, S].
    """
    found = self._torso.unroll(layers, inputs, state)
    observation = layers.ops.reshape(
      inputs.observation, (-1, *self.inputs[0].shape)
    )
    features = _append_mask(
      layers.ops, found.hidden, observation, self.inputs[0]
    )
    shape = (-1, inputs.first.shape[1], features.shape[1])
    return layers.ops.reshape(features, shape), found.state


class EncodedPolicy:
  """Declaration of a policy on the features of a recurrent encoder.

  Attributes:
    head: output layer of the policy.
  """

  needs_random = False

  def __init__(
    self, encoder: RecurrentEncoder, policy: policy_network.PolicyNetwork
  ):
    self.inputs, self.prefers_numpy = encoder.inputs, encoder.prefers_numpy
    self.head = policy.head
    self._encoder, self._policy = encoder, policy

  def __call__(
    self, layers: layers_lib.Layers, *inputs: Array
  ) -> tuple[Array, Array]:
    """Returns distribution parameters [B, P], and the next state [B, S]."""
    features, state = self._encoder(layers, *inputs)
    return self._policy(layers, features), state

  def greedy(
    self, ops: typing.Any, outputs: tuple[Array, Array]
  ) -> dict[str, Array]:
    """Returns {'action': [B, ...], 'next_state': [B, S]}, with the modes."""
    parameters, state = outputs
    return {**self._policy.greedy(ops, parameters), "next_state": state}


def _replace_observations(
  spec: specs.EnvironmentSpec, size: int
) -> specs.EnvironmentSpec:
  """Returns a spec with features [size], and masks if there were any."""
  features = specs.Array((size,), np.float32, "features")
  if isinstance(spec.observations, arrays.MaskedArray):
    features = arrays.MaskedArray(features, spec.observations.mask_size)
  return spec._replace(observations=features)


def _append_mask(
  ops: typing.Any, features: Array, observation: Array, spec: specs.Array
) -> Array:
  """Returns features [B, F], followed by the masks of observations [B, ...]."""
  if not isinstance(spec, arrays.MaskedArray):
    return features
  mask = ops.float32(observation[:, -spec.mask_size :])
  return ops.concat([features, mask])
