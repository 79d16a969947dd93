"""Recurrent torsos: features of an episode so far, by an LSTM."""

import typing

import numpy as np
from acme import specs

from slipway.agents.networks import action_masks, torsos
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

Array = layers_lib.Array

# Name of an extra: LSTM states float32 [B, 2 H] before the observations.
STATE = "state"


class Inputs(typing.NamedTuple):
  """Inputs of a recurrent network: a step [B, ...], or T steps [B, T, ...]."""

  observation: Array
  action_before: Array  # the action that led to the observation
  reward_before: Array  # float32, its reward
  first: Array  # bool, whether the observation begins an episode


class Features(typing.NamedTuple):
  """Outputs of a torso with an LSTM of size H, for N observations."""

  hidden: Array  # [N, H]
  state: Array  # [B, 2 H], after the last step: the LSTM's output and its cell
  penalty: Array | None  # [N, A] or [A]; see `action_masks.MaskSplitter.split`


class RecurrentTorso:
  """A torso, then an LSTM on its features, the last action and the last reward.

  Kapturowski et al. 2019, section 2.3. Discrete actions are one-hot. Where an
  episode begins, the state is zero, and so are the last action and reward.

  Attributes:
    inputs: spec of each field of `Inputs` and of the LSTM state, in this order,
      without the batch dimension.
    prefers_numpy: whether the torso acts faster in NumPy than in TensorFlow.
  """

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    torso: str,
    sizes: tuple[int, ...],
    lstm_size: int,
    activation: str = "relu",
    gain: float | None = None,
    normalized: bool = False,
  ):
    """Declares the torso.

    Args:
      spec: spec of one environment.
      torso: see `torsos.apply_torso`.
      sizes: number of units of each linear layer before the LSTM.
      lstm_size: H, number of outputs of the LSTM.
      activation: activation of the linear layers.
      gain: gain of orthogonal initializers, or None for truncated normal ones.
      normalized: whether the torso normalizes observations. Acting networks
        may; learners normalize batches instead.
    """
    self.inputs = (
      spec.observations,
      specs.Array(spec.actions.shape, spec.actions.dtype),
      specs.Array((), np.float32),
      specs.Array((), bool),
      specs.Array((2 * lstm_size,), np.float32),
    )
    self.prefers_numpy = torsos.is_small(torso)
    self._mask = action_masks.MaskSplitter(spec)
    self._torso, self._sizes, self._lstm_size = torso, tuple(sizes), lstm_size
    self._activation, self._gain = activation, gain
    self._normalized = normalized
    self._num_values = 0  # of an action, or of each of its components
    if isinstance(spec.actions, specs.DiscreteArray):
      self._num_values = spec.actions.num_values
    elif isinstance(spec.actions, arrays.MultiDiscreteArray):
      self._num_values = max(spec.actions.sizes)

  def step(
    self, layers: layers_lib.Layers, inputs: Inputs, state: Array
  ) -> Features:
    """Returns the features of one step.

    Args:
      layers: layers with the network's variables.
      inputs: inputs of the step, [B, ...] each.
      state: LSTM state before the step, float32 [B, 2 H].
    """
    x, continues, penalty = self._embed_inputs(layers, inputs)
    hidden, state = self._apply_lstm(layers, x, state * continues)
    return Features(hidden, state, penalty)

  def unroll(
    self, layers: layers_lib.Layers, inputs: Inputs, state: Array
  ) -> Features:
    """Returns the features of T steps, which are N = B * T observations.

    Args:
      layers: layers with the network's variables.
      inputs: inputs [B, T, ...] each; T must be known when a graph is traced.
      state: LSTM state before the first step, float32 [B, 2 H].
    """
    ops, steps = layers.ops, inputs.first.shape[1]
    merged = Inputs(*(ops.reshape(x, (-1, *x.shape[2:])) for x in inputs))
    x, continues, penalty = self._embed_inputs(layers, merged)
    x = ops.reshape(x, (-1, steps, x.shape[1]))
    continues = ops.reshape(continues, (-1, steps, 1))
    hidden = []
    for t in range(steps):
      h, state = self._apply_lstm(layers, x[:, t], state * continues[:, t])
      hidden.append(h)
    stacked = ops.reshape(ops.stack(hidden, 1), (-1, self._lstm_size))
    return Features(stacked, state, penalty)

  def _embed_inputs(
    self, layers: layers_lib.Layers, inputs: Inputs
  ) -> tuple[Array, Array, Array | None]:
    """Computes the inputs of the LSTM from the inputs of a step.

    Returns:
      Inputs of the LSTM [B, F]; float32 [B, 1], 0 where an episode begins and 1
      elsewhere; and penalties of illegal actions [B, A] or [A], or None.
    """
    ops = layers.ops
    observation, penalty = self._mask.split(ops, inputs.observation)
    continues = 1.0 - ops.float32(inputs.first)[:, None]
    features = torsos.apply_torso(
      layers,
      self._torso,
      self._sizes,
      observation,
      self._activation,
      self._gain,
      self._normalized,
    )
    action = inputs.action_before
    if self._num_values:
      action = ops.one_hot(action, self._num_values)
    action = ops.float32(ops.flatten(action)) * continues
    reward = inputs.reward_before[:, None] * continues
    return ops.concat([features, action, reward]), continues, penalty

  def _apply_lstm(
    self, layers: layers_lib.Layers, x: Array, state: Array
  ) -> tuple[Array, Array]:
    """Applies one LSTM step; returns its output [B, H] and state [B, 2 H].

    Hochreiter and Schmidhuber 1997. The forget gate has a bias of 1, so memory
    is kept when training starts.

    Args:
      layers: layers with the network's variables.
      x: inputs [B, F].
      state: output and cell before the step, [B, 2 H].
    """
    ops = layers.ops
    h, c = ops.split(state, 2)
    gates = layers.linear("gates", ops.concat([x, h]), 4 * self._lstm_size)
    i, f, g, o = ops.split(gates, 4)
    c = ops.sigmoid(f + 1.0) * c + ops.sigmoid(i) * ops.tanh(g)
    h = ops.sigmoid(o) * ops.tanh(c)
    return h, ops.concat([h, c])


class ActorMemory:
  """Last action and LSTM state of each of an actor's environments."""

  def __init__(self, inputs: tuple[specs.Array, ...]):
    """Starts before the first episodes.

    Args:
      inputs: `RecurrentTorso.inputs`.
    """
    _, self._action_spec, _, _, self._state_spec = inputs
    self._reset(0)

  def recall(self, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the last actions [B, ...] and the LSTM states [B, 2 H].

    If the batch size B changed, the memory is reset to zeros first.
    """
    if len(self._action) != batch_size:
      self._reset(batch_size)
    return self._action, self._state

  def store(self, action: np.ndarray, state: np.ndarray) -> None:
    """Stores the actions [B, ...] of a step, and the LSTM states after it."""
    self._action, self._state = action, state

  def get_state(self) -> dict[str, np.ndarray]:
    """Returns a copy of the memory."""
    return {"action": self._action.copy(), STATE: self._state.copy()}

  def set_state(self, state: typing.Mapping[str, np.ndarray]) -> None:
    """Continues from the memory that `get_state` returned."""
    self._action, self._state = state["action"], state[STATE]

  def _reset(self, batch_size: int) -> None:
    self._action, self._state = (
      np.zeros((batch_size, *spec.shape), spec.dtype)
      for spec in (self._action_spec, self._state_spec)
    )


def sequence_inputs(sequence: typing.Any, concat: typing.Any) -> Inputs:
  """Returns the inputs [B, T + 1, ...] of a network on sequences of T steps.

  Args:
    sequence: a `sequences.Sequence` with a leading dimension B in each field.
    concat: function `concat` of an `ops` module.
  """

  def prepend(before: Array, others: Array) -> Array:
    return concat([before[:, None], others], 1)

  return Inputs(
    sequence.observation,
    prepend(sequence.action_before, sequence.action),
    prepend(sequence.reward_before, sequence.reward),
    sequence.first,
  )
