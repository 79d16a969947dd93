"""Recurrent Q-networks: torso, LSTM, head."""

import ml_collections
from acme import specs

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import q_network, recurrent

Array = layers_lib.Array


class RecurrentQNetwork:
  """q(o_1..o_t, .): a (dueling) head on a `recurrent.RecurrentTorso`.

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
      spec: of an environment with discrete actions, A of them.
      normalized: whether it normalizes its observations; where it learns, the
        learner does.
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
    """Values [B, A] of one step, and the state after it [B, 2 H].

    Args:
      layers: bound to the variables.
      observation: [B, ...].
      action_before: [B] int32.
      reward_before: [B] float32.
      first: [B] bool: nothing came before.
      state: float32 [B, 2 H], before the step.
    """
    inputs = recurrent.Inputs(observation, action_before, reward_before, first)
    features = self._torso.step(layers, inputs, state)
    return self._head(layers, features), features.state

  def greedy(
    self, ops: layers_lib.Array, outputs: tuple[Array, Array]
  ) -> dict[str, Array]:
    """The 'action' of the highest value, int32 [B], and the 'next_state'."""
    values, state = outputs
    return {"action": ops.argmax(values), "next_state": state}

  def unroll(
    self, layers: layers_lib.Layers, inputs: recurrent.Inputs, state: Array
  ) -> tuple[Array, Array]:
    """Values [B, T, A] of inputs [B, T, ...], and the state after them.

    Args:
      layers: bound to the variables.
      inputs: T known.
      state: [B, 2 H], before the first.
    """
    features = self._torso.unroll(layers, inputs, state)
    shape = (-1, inputs.first.shape[1], self._num_actions)
    values = layers.ops.reshape(self._head(layers, features), shape)
    return values, features.state

  def _head(
    self, layers: layers_lib.Layers, features: recurrent.Features
  ) -> Array:
    values, value = q_network.streams(
      layers,
      features.hidden,
      self._head_size,
      self._num_actions,
      1,
      self._dueling,
    )
    if value is not None:
      values = q_network.combine(layers.ops, value, values)
    return values if features.penalty is None else values + features.penalty
