"""Recurrent Q-networks: torso, LSTM, head."""

import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import action_masks, q_network, torsos
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array


class Inputs(typing.NamedTuple):
  """What the network sees of each step; [B, ...] or [B, T, ...]."""

  observation: Array  # [..., ...]
  action_before: Array  # [...] int32
  reward_before: Array  # [...] float32
  first: Array  # [...] bool: nothing came before


class RecurrentQNetwork:
  """q(o_1..o_t, .) by an LSTM; Kapturowski et al. 2019, section 2.3.

  Torso, then an LSTM on its features, the action before (one-hot) and the
  reward before, then a (dueling) head. Where an episode begins, the state is
  zero, and so is what came before.
  """

  samples = False

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
    self.inputs = (
      spec.observations,
      specs.Array((), np.int32),
      specs.Array((), np.float32),
      specs.Array((), bool),
      specs.Array((state_size(config),), np.float32),
    )
    self._mask = action_masks.ActionMask(spec)
    self.small = torsos.is_small(config.torso)
    self._torso, self._dueling = config.torso, config.dueling
    *torso_sizes, self._head_size = config.hidden_sizes
    self._torso_sizes = tuple(torso_sizes)
    self._normalized = normalized
    self._num_actions = spec.actions.num_values
    self._lstm_size = config.lstm_size

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
    inputs = Inputs(observation, action_before, reward_before, first)
    x, going, penalty = self._features(layers, inputs)
    hidden, state = self._step(layers, x, state * going)
    return self._head(layers, hidden, penalty), state

  def greedy(
    self, ops: typing.Any, outputs: tuple[Array, Array]
  ) -> dict[str, Array]:
    """The 'action' of the highest value, int32 [B], and the 'next_state'."""
    values, state = outputs
    return {"action": ops.argmax(values), "next_state": state}

  def unroll(
    self, layers: layers_lib.Layers, inputs: Inputs, state: Array
  ) -> tuple[Array, Array]:
    """Values [B, T, A] of inputs [B, T, ...], and the state after them.

    Args:
      layers: bound to the variables.
      inputs: T known.
      state: [B, 2 H], before the first.
    """
    ops, steps = layers.ops, inputs.first.shape[1]
    merged = Inputs(*(ops.reshape(x, (-1, *x.shape[2:])) for x in inputs))
    x, going, penalty = self._features(layers, merged)
    x = ops.reshape(x, (-1, steps, x.shape[1]))
    going = ops.reshape(going, (-1, steps, 1))
    hidden = []
    for t in range(steps):
      h, state = self._step(layers, x[:, t], state * going[:, t])
      hidden.append(h)
    merged_hidden = ops.reshape(ops.stack(hidden, 1), (-1, self._lstm_size))
    values = self._head(layers, merged_hidden, penalty)
    return ops.reshape(values, (-1, steps, self._num_actions)), state

  def _features(
    self, layers: layers_lib.Layers, inputs: Inputs
  ) -> tuple[Array, Array, Array | None]:
    """Returns the LSTM's inputs, where episodes continue, and masks.

    Returns:
      The inputs [B, F]; [B, 1], 0 where an episode begins; what is added to the
      values of illegal actions [B, A], None: nothing.
    """
    ops = layers.ops
    observation, penalty = self._mask.split(ops, inputs.observation)
    going = 1.0 - ops.float32(inputs.first)[:, None]
    features = torsos.torso(
      layers,
      self._torso,
      self._torso_sizes,
      observation,
      normalized=self._normalized,
    )
    action = ops.one_hot(inputs.action_before, self._num_actions) * going
    reward = inputs.reward_before[:, None] * going
    return ops.concat([features, action, reward]), going, penalty

  def _step(
    self, layers: layers_lib.Layers, x: Array, state: Array
  ) -> tuple[Array, Array]:
    """Hochreiter and Schmidhuber 1997; a forget gate that starts open."""
    ops = layers.ops
    h, c = ops.split(state, 2)
    gates = layers.linear("gates", ops.concat([x, h]), 4 * self._lstm_size)
    i, f, g, o = ops.split(gates, 4)
    c = ops.sigmoid(f + 1.0) * c + ops.sigmoid(i) * ops.tanh(g)
    h = ops.sigmoid(o) * ops.tanh(c)
    return h, ops.concat([h, c])

  def _head(
    self, layers: layers_lib.Layers, hidden: Array, penalty: Array | None
  ) -> Array:
    values, value = q_network.streams(
      layers, hidden, self._head_size, self._num_actions, 1, self._dueling
    )
    if value is not None:
      values = q_network.combine(layers.ops, value, values)
    return values if penalty is None else values + penalty


def state_size(config: ml_collections.ConfigDict) -> int:
  """2 H: the LSTM's output and its cell."""
  return 2 * config.lstm_size
