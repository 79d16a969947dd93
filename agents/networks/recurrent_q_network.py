"""Recurrent Q-networks: torso, LSTM, head."""

import typing

import ml_collections
from acme import specs

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import q_network, recurrent

Array = layers_lib.Array


class RecurrentQNetwork:
  """Computes action values of the episode so far: an LSTM torso, then a head.

  Kapturowski et al. 2019, section 2.3.
  """

  needs_random = False

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    normalized: bool = False,
  ):
    """Declares the network.

    Args:
      config: the `network` section of a config.
      spec: spec of an environment with A discrete actions.
      normalized: whether the network normalizes observations. Acting networks
        may; learners normalize batches instead.
    """
    *sizes, self._head_size = config.hidden_sizes
    self._torso = recurrent.RecurrentTorso(
      spec, config.torso, tuple(sizes), config.lstm_size, normalized=normalized
    )
    self.inputs, self.prefers_numpy = (
      self._torso.inputs,
      self._torso.prefers_numpy,
    )
    self._dueling = config.dueling
    self._num_actions = spec.actions.num_values

  def __call__(
    self,
    layers: layers_lib.Layers,
    observation: Array,
    action_before: Array,
    reward_before: Array,
    first: Array,
    state: Array,
  ) -> tuple[Array, Array]:
    """Returns values [B, A] of one step, and the LSTM state after it [B, 2 H].

    Args:
      layers: layers with the network's variables.
      observation: observations [B, ...].
      action_before: int32 [B], actions that led to the observations.
      reward_before: float32 [B], rewards of these actions.
      first: bool [B], whether an observation begins an episode.
      state: LSTM state before the step, float32 [B, 2 H]; H: size of the LSTM.
    """
    inputs = recurrent.Inputs(observation, action_before, reward_before, first)
    features = self._torso.step(layers, inputs, state)
    return self._apply_head(layers, features), features.state

  def greedy(
    self, ops: typing.Any, outputs: tuple[Array, Array]
  ) -> dict[str, Array]:
    """Returns {'action': int32 [B], 'next_state': [B, 2 H]}.

    Args:
      ops: module that computes, `numpy_ops` or `tf_ops`.
      outputs: values [B, A], whose highest determine the actions, and the LSTM
        state after the step.
    """
    values, state = outputs
    return {"action": ops.argmax(values), "next_state": state}

  def unroll(
    self, layers: layers_lib.Layers, inputs: recurrent.Inputs, state: Array
  ) -> tuple[Array, Array]:
    """Returns values [B, T, A] of T steps, and the LSTM state after them.

    Args:
      layers: layers with the network's variables.
      inputs: inputs [B, T, ...]; T must be known when the graph is traced.
      state: LSTM state before the first step, [B, 2 H].
    """
    features = self._torso.unroll(layers, inputs, state)
    shape = (-1, inputs.first.shape[1], self._num_actions)
    values = layers.ops.reshape(self._apply_head(layers, features), shape)
    return values, features.state

  def _apply_head(
    self, layers: layers_lib.Layers, features: recurrent.Features
  ) -> Array:
    """Returns values [N, A] of the features of N observations."""
    values, value = q_network.compute_streams(
      layers,
      features.hidden,
      self._head_size,
      self._num_actions,
      1,
      self._dueling,
    )
    if value is not None:
      values = q_network.combine_streams(layers.ops, value, values)
    return values if features.penalty is None else values + features.penalty
