"""R2D2's recurrent Q-network: a torso, a core, and a dueling head."""

import typing

import ml_collections
from acme import specs

from slipway.agents.networks import cores, q_network, recurrent
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class RecurrentQNetwork:
  """Declaration of a recurrent network of action values, for R2D2.

  Action values depend on all observations of the episode so far: Kapturowski et
  al. 2019, "Recurrent experience replay in distributed reinforcement learning",
  section 2.3. S is the size of the core's state. See
  `network.PolicyDeclaration`.
  """

  needs_random = False

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    normalized: bool = False,
  ):
    """Declares the network."""
    settings = layers_lib.TorsoSettings.from_config(config, normalized)
    *sizes, head_size = settings.sizes
    self._torso = recurrent.RecurrentTorso(
      spec, settings._replace(sizes=tuple(sizes)), cores.make(config)
    )
    self.inputs = self._torso.inputs
    self.prefers_numpy = self._torso.prefers_numpy
    self._num_actions = spec.actions.num_values
    self._streams = q_network.Streams(
      head_size, self._num_actions, config.dueling, settings.scheme
    )

  def __call__(
    self,
    layers: layers_lib.Layers,
    observation: Array,
    action_before: Array,
    reward_before: Array,
    first: Array,
    state: Array,
  ) -> tuple[Array, Array]:
    """Returns action values [B, A] of one step, and the next states [B, S].

    Args:
      observation: observations [B, ...].
      action_before: int32 [B], actions that led to the observations.
      reward_before: float32 [B], rewards of these actions.
      first: bool [B], whether an observation begins an episode.
      state: states of the core before the step, float32 [B, S].
    """
    inputs = recurrent.Inputs(observation, action_before, reward_before, first)
    features = self._torso.step(layers, inputs, state)
    return self._apply_head(layers, features), features.state

  def greedy(
    self, ops: typing.Any, outputs: tuple[Array, Array]
  ) -> dict[str, Array]:
    """Returns the greedy actions and the states after the step.

    Args:
      outputs: action values [B, A], and states [B, S] after the step.

    Returns:
      {'action': int32 [B], 'next_state': [B, S]}; actions have the highest
      values.
    """
    values, state = outputs
    return {"action": ops.argmax(values), "next_state": state}

  def unroll(
    self, layers: layers_lib.Layers, inputs: recurrent.Inputs, state: Array
  ) -> tuple[Array, Array]:
    """Returns action values [B, T, A] of T steps, and the last states [B, S].

    Args:
      inputs: inputs of the steps, [B, T, ...] each; T must be static.
      state: states before the first step, [B, S].
    """
    features = self._torso.unroll(layers, inputs, state)
    shape = (-1, inputs.first.shape[1], self._num_actions)
    values = layers.ops.reshape(self._apply_head(layers, features), shape)
    return values, features.state

  def _apply_head(
    self, layers: layers_lib.Layers, features: recurrent.Features
  ) -> Array:
    """Returns action values [N, A] for the features of N observations."""
    values, value = self._streams(layers, features.hidden)
    if value is not None:
      values = q_network.combine_streams(layers.ops, value, values)
    return values if features.penalty is None else values + features.penalty
