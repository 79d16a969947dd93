"""Recurrent Q-networks: torso, LSTM, head."""

import typing

import ml_collections
import sonnet as snt
import tensorflow as tf
from acme import specs

from agents.networks import layers, q_network


class Inputs(typing.NamedTuple):
  """What the network sees of each step; [B, ...] or [B, T, ...]."""

  observation: tf.Tensor  # [..., ...]
  action_before: tf.Tensor  # [...] int32
  reward_before: tf.Tensor  # [...] float32
  first: tf.Tensor  # [...] bool: nothing came before


class RecurrentQNetwork(snt.Module):
  """q(o_1..o_t, .) by an LSTM; Kapturowski et al. 2019, section 2.3.

  Torso, then an LSTM on its features, the action before (one-hot) and the
  reward before, then a (dueling) head. Where an episode begins, the state is
  zero, and so is what came before.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    num_actions: int,
    name: str = "recurrent_q_network",
  ):
    """Makes the layers.

    Args:
      config: the `network` part of a config.
      num_actions: A.
      name: prefix of the variables.
    """
    super().__init__(name=name)
    *torso_sizes, head_size = config.hidden_sizes
    self._num_actions, self._size = num_actions, config.lstm_size
    self._torso = q_network.Torso(config.torso, tuple(torso_sizes))
    self._gates = snt.Linear(4 * self._size, name="gates")
    self._advantage = q_network.Stream(
      head_size, num_actions, "advantage", snt.Linear, snt.Linear
    )
    self._value = None
    if config.dueling:
      self._value = q_network.Stream(
        head_size, 1, "value", snt.Linear, snt.Linear
      )

  def unroll(
    self, inputs: Inputs, state: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Values [B, T, A] of inputs [B, T, ...], and the state after them.

    Args:
      inputs: T known.
      state: [B, 2 H], before the first.
    """
    steps: typing.Any = inputs.first.shape[1]
    merged = tf.reshape(inputs.observation, (-1, *inputs.observation.shape[2:]))
    features = self._torso(merged)
    x = tf.concat([features, *self._before(inputs)], axis=1)
    x = tf.reshape(x, (-1, steps, x.shape[1]))
    going = 1.0 - tf.cast(inputs.first, tf.float32)
    outputs = []
    for t in range(steps):
      output, state = self._step(x[:, t], state * going[:, t, None])
      outputs.append(output)
    hidden = tf.reshape(tf.stack(outputs, axis=1), (-1, self._size))
    values = self._head(hidden)
    return tf.reshape(values, (-1, steps, self._num_actions)), state

  def _before(self, inputs: Inputs) -> list[tf.Tensor]:
    """What came before, [B * T, A] and [B * T, 1]."""
    going = 1.0 - tf.cast(tf.reshape(inputs.first, (-1, 1)), tf.float32)
    action = tf.reshape(inputs.action_before, (-1,))
    reward = tf.reshape(inputs.reward_before, (-1, 1))
    return [tf.one_hot(action, self._num_actions) * going, reward * going]

  def _step(
    self, x: tf.Tensor, state: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Hochreiter and Schmidhuber 1997; a forget gate that starts open."""
    h, c = tf.split(state, 2, axis=1)
    gates = self._gates(tf.concat([x, h], axis=1))
    i, f, g, o = tf.split(gates, 4, axis=1)
    c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(g)
    h = tf.sigmoid(o) * tf.tanh(c)
    return h, tf.concat([h, c], axis=1)

  def _head(self, hidden: tf.Tensor) -> tf.Tensor:
    noise = layers.Noise(None)
    advantage = self._advantage(hidden, noise)
    if self._value is None:
      return advantage
    mean = tf.reduce_mean(advantage, axis=1, keepdims=True)
    return self._value(hidden, noise) + advantage - mean


def make_recurrent_q_network(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> RecurrentQNetwork:
  """A network for this environment, with its variables created.

  Args:
    config: the `network` part of a config.
    spec: of an environment with discrete actions.
  """
  network = RecurrentQNetwork(config, spec.actions.num_values)
  observations = spec.observations
  network.unroll(
    Inputs(
      tf.zeros((1, 1, *observations.shape), observations.dtype),
      tf.zeros((1, 1), tf.int32),
      tf.zeros((1, 1)),
      tf.ones((1, 1), tf.bool),
    ),
    tf.zeros((1, 2 * config.lstm_size)),
  )
  return network
