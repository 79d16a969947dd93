"""Cores: the memory of recurrent networks, one step of an episode at a time."""

import typing

import ml_collections
import numpy as np

from slipway.agents.networks import initializers
from slipway.agents.networks import layers as layers_lib
from slipway.configs import checks, rules
from slipway.environments import user_code

Array = layers_lib.Array  # np.ndarray or tf.Tensor

# Logit of a place in an attention core's window that holds no step yet.
_EMPTY = -1e9


class Core(typing.Protocol):
  """Memory of one network, which acts in NumPy and learns in TensorFlow.

  A user's own is 'module:Name', a class whose constructor takes
  `config.network.core_size`.

  Attributes:
    state_size: S, numbers that an environment's memory holds. They are 0 where
      an episode begins.
  """

  state_size: int

  def step(
    self, layers: layers_lib.Layers, x: Array, state: Array
  ) -> tuple[Array, Array]:
    """Returns the features [B, H] of a step, and the state [B, S] after it.

    Args:
      x: inputs of the step, [B, F].
      state: states before the step, float32 [B, S].
    """
    ...


def make(network: ml_collections.ConfigDict) -> Core:
  """Makes the core of a config's networks, named `network.core`."""
  if checks.is_user_code(network.core):
    return _UserCore(network.core, network.core_size)
  if network.core == "attention":
    return _AttentionCore(network.core_size, network.core_window)
  kind = _GruCore if network.core == "gru" else _LstmCore
  return kind(network.core_size)


def check(network: ml_collections.ConfigDict) -> None:
  """Raises ValueError if a user's core fails on zeros."""
  if not checks.is_user_code(network.core) or not network.core_size:
    return
  _load(network.core)  # its errors are clear ones
  try:
    core = make(network)
    state = np.zeros((2, core.state_size), np.float32)
    inputs = np.zeros((2, 3), np.float32)
    trial = layers_lib.make_trial_layers(layers_lib.VariableShapes())
    features, after = core.step(trial, inputs, state)
    shape, after_shape = np.shape(features), np.shape(after)
  except BaseException as error:
    user_code.raise_interrupt(error)
    raise ValueError(
      f"config.network.core={network.core!r} fails on zeros "
      f"({user_code.describe(error)}), so there would be no memory: correct "
      "the class"
    ) from error
  if len(shape) != 2 or shape[0] != 2 or after_shape != state.shape:
    raise ValueError(
      f"config.network.core={network.core!r} returns features {list(shape)} "
      f"and states {list(after_shape)} for a batch of 2 and its state_size of "
      f"{core.state_size}, so there would be no memory: "
      "return [B, H] and [B, state_size]"
    )


class _LstmCore:
  """An LSTM, whose state is its output and its cell.

  Gers et al. 2000, "Learning to forget", whose forget gate starts open: a bias
  of 1 is added, as in Jozefowicz et al. 2015, section 2.2.
  """

  def __init__(self, size: int):
    self._size, self.state_size = size, 2 * size

  def step(
    self, layers: layers_lib.Layers, x: Array, state: Array
  ) -> tuple[Array, Array]:
    ops = layers.ops
    h, c = ops.split(state, 2)
    gates = layers.linear("gates", ops.concat([x, h]), 4 * self._size)
    i, f, g, o = ops.split(gates, 4)
    c = ops.sigmoid(f + 1.0) * c + ops.sigmoid(i) * ops.tanh(g)
    h = ops.sigmoid(o) * ops.tanh(c)
    return h, ops.concat([h, c])


class _GruCore:
  """A GRU, whose state is its output.

  Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder"
  (https://arxiv.org/abs/1406.1078), equations 5 to 8.
  """

  def __init__(self, size: int):
    self._size = self.state_size = size

  def step(
    self, layers: layers_lib.Layers, x: Array, state: Array
  ) -> tuple[Array, Array]:
    ops = layers.ops
    gates = layers.linear("gates", ops.concat([x, state]), 2 * self._size)
    reset, keep = ops.split(ops.sigmoid(gates), 2)
    inputs = ops.concat([x, reset * state])
    new = ops.tanh(layers.linear("candidate", inputs, self._size))
    h = keep * state + (1.0 - keep) * new
    return h, h


class _AttentionCore:
  """A transformer's layer that attends to the last W steps and its own.

  Parisotto et al. 2020, "Stabilizing transformers for reinforcement learning"
  (https://arxiv.org/abs/1910.06764), with the identity map reordered (section
  3.1) and the gated recurrent connections of section 3.2, equation 5; with one
  learned bias per distance and head instead of relative embeddings. The state
  holds keys and values of the last W steps, the oldest first, and for each
  place whether it holds a step.
  """

  def __init__(self, size: int, window: int):
    self._size, self._window = size, window
    self.state_size = window * (2 * size + 1)

  def step(
    self, layers: layers_lib.Layers, x: Array, state: Array
  ) -> tuple[Array, Array]:
    ops, size, window = layers.ops, self._size, self._window
    x = layers.linear("embedding", x, size)
    normalized = layers.layer_norm("norm_1", x)
    projected = layers.linear("projections", normalized, 3 * size)
    query, key, value = ops.split(projected, 3)
    own = ops.concat([key, value, 0.0 * key[:, :1] + 1.0])
    # Places of W + 1 steps, the newest last: [B, W + 1, 2 H + 1].
    places = ops.reshape(
      ops.concat([state, own]), (-1, window + 1, 2 * size + 1)
    )
    y = self._attend(layers, query, places)
    x = _gate(layers, "gate_1", x, ops.relu(layers.linear("output", y, size)))
    y = layers.layer_norm("norm_2", x)
    y = layers.linear("mlp_1", ops.relu(layers.linear("mlp_0", y, size)), size)
    x = _gate(layers, "gate_2", x, ops.relu(y))
    return x, ops.reshape(places[:, 1:], (-1, self.state_size))

  def _attend(
    self, layers: layers_lib.Layers, query: Array, places: Array
  ) -> Array:
    """Returns the weighted values [B, H] of the places for queries [B, H]."""
    ops, steps = layers.ops, self._window + 1
    size = self._size // rules.CORE_HEADS
    shape = (-1, steps, rules.CORE_HEADS, size)
    keys = ops.reshape(places[..., : self._size], shape)
    values = ops.reshape(places[..., self._size : -1], shape)
    queries = ops.reshape(query, (-1, 1, rules.CORE_HEADS, size))
    logits = ops.sum(queries * keys, axis=-1) / size**0.5  # [B, W + 1, heads]
    logits += layers.variable(
      "distances", (steps, rules.CORE_HEADS), initializers.zeros
    )
    logits += (1.0 - places[..., -1:]) * _EMPTY
    weights = ops.softmax(ops.swapaxes(logits, 1, 2))  # [B, heads, W + 1]
    weights = ops.swapaxes(weights, 1, 2)[..., None]
    return ops.reshape(ops.sum(weights * values, axis=1), (-1, self._size))


class _UserCore:
  """A user's core, whose layers can't share weights with Slipway's."""

  def __init__(self, name: str, size: int):
    self._core = _load(name)(size)
    self.state_size = int(self._core.state_size)

  def step(
    self, layers: layers_lib.Layers, x: Array, state: Array
  ) -> tuple[Array, Array]:
    """Returns the user's outputs and next state, from inputs and a state."""
    return self._core.step(layers.for_user_code(), x, state)


def _load(name: str) -> typing.Any:
  """Imports the class of a user's core, 'module:Name'."""
  return user_code.load(
    f"config.network.core={name!r}",
    name,
    "a class with state_size and step(layers, x, state)",
  )


def _gate(layers: layers_lib.Layers, name: str, x: Array, y: Array) -> Array:
  """Returns GTrXL's gate of x and y [B, H], which starts close to x."""
  ops, size = layers.ops, x.shape[1]
  gates = layers.linear(f"{name}/gates", ops.concat([y, x]), 2 * size)
  reset, update = ops.split(gates, 2)
  reset, update = ops.sigmoid(reset), ops.sigmoid(update - 2.0)
  inputs = ops.concat([y, reset * x])
  new = ops.tanh(layers.linear(f"{name}/candidate", inputs, size))
  return (1.0 - update) * x + update * new
