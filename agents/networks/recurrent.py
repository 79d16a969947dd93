"""Recurrent torsos: features of an episode so far, by an LSTM."""

import typing

import numpy as np
from acme import specs

from slipway.agents.networks import action_masks, torsos
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

Array = layers_lib.Array

STATE = "state"  # extra: float32 [B, 2 H], recurrent, before the observations


class Inputs(typing.NamedTuple):
  """What a recurrent network sees of each step; [B, ...] or [B, T, ...]."""

  observation: Array  # [..., ...]
  action_before: Array  # [..., ...] of the environment's actions
  reward_before: Array  # [...] float32
  first: Array  # [...] bool: nothing came before


class Features(typing.NamedTuple):
  """The outputs of a torso, for N observations."""

  hidden: Array  # [N, H]
  state: Array  # [B, 2 H], after the last step: the LSTM's output and its cell
  penalty: Array | None  # [N, A] or [A]; see `action_masks.MaskSplitter.split`


class RecurrentTorso:
  """A torso, then an LSTM on its features, the last action and the last reward.

  Kapturowski et al. 2019, section 2.3. Discrete actions are one-hot. Where an
  episode begins, the state is zero, and so are the last action and reward.

  Attributes:
    inputs: spec of one item of the batch, of each argument.
    small: whether the torso acts faster in NumPy.
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
      spec: of one environment.
      torso: see `torsos.torso`.
      sizes: units of the linear layers before the LSTM.
      lstm_size: H, outputs of the LSTM.
      activation: of the linear layers.
      gain: of an orthogonal initialisation; None: truncated normal.
      normalized: whether it normalizes its observations; where it learns, the
        learner does.
    """
    self.inputs = (
      spec.observations,
      specs.Array(spec.actions.shape, spec.actions.dtype),
      specs.Array((), np.float32),
      specs.Array((), bool),
      specs.Array((2 * lstm_size,), np.float32),
    )
    self.small = torsos.is_small(torso)
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
    """Features of one step.

    Args:
      layers: bound to the variables.
      inputs: [B, ...] each.
      state: float32 [B, 2 H], before the step.
    """
    x, going, penalty = self._read(layers, inputs)
    hidden, state = self._advance(layers, x, state * going)
    return Features(hidden, state, penalty)

  def unroll(
    self, layers: layers_lib.Layers, inputs: Inputs, state: Array
  ) -> Features:
    """Features of T steps, of N = B T observations.

    Args:
      layers: bound to the variables.
      inputs: [B, T, ...] each, T known.
      state: [B, 2 H], before the first step.
    """
    ops, steps = layers.ops, inputs.first.shape[1]
    merged = Inputs(*(ops.reshape(x, (-1, *x.shape[2:])) for x in inputs))
    x, going, penalty = self._read(layers, merged)
    x = ops.reshape(x, (-1, steps, x.shape[1]))
    going = ops.reshape(going, (-1, steps, 1))
    hidden = []
    for t in range(steps):
      h, state = self._advance(layers, x[:, t], state * going[:, t])
      hidden.append(h)
    stacked = ops.reshape(ops.stack(hidden, 1), (-1, self._lstm_size))
    return Features(stacked, state, penalty)

  def _read(
    self, layers: layers_lib.Layers, inputs: Inputs
  ) -> tuple[Array, Array, Array | None]:
    """Returns the LSTM's inputs, where episodes continue, and masks.

    Returns:
      The inputs [B, F]; [B, 1], 0 where an episode begins; what is added to the
      outputs of illegal actions [B, A], None: nothing.
    """
    ops = layers.ops
    observation, penalty = self._mask.split(ops, inputs.observation)
    going = 1.0 - ops.float32(inputs.first)[:, None]
    features = torsos.torso(
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
    action = ops.float32(ops.flatten(action)) * going
    reward = inputs.reward_before[:, None] * going
    return ops.concat([features, action, reward]), going, penalty

  def _advance(
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


class ActorMemory:
  """The last action and LSTM state of each environment of an actor."""

  def __init__(self, inputs: tuple[specs.Array, ...]):
    """Starts before the first episodes.

    Args:
      inputs: `RecurrentTorso.inputs`: the fields of `Inputs`, then the state.
    """
    self._action_spec, self._state_spec = inputs[1], inputs[-1]
    self._begin(0)

  def recall(self, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the last actions [B, ...] and the states [B, 2 H].

    They are zero if there were none yet, or those of another batch size.
    """
    if len(self._action) != batch_size:
      self._begin(batch_size)
    return self._action, self._state

  def store(self, action: np.ndarray, state: np.ndarray) -> None:
    """Takes the actions [B, ...] of a step, and the states after it."""
    self._action, self._state = action, state

  def get_state(self) -> dict[str, np.ndarray]:
    """Returns a copy of the memory."""
    return {"action": self._action.copy(), STATE: self._state.copy()}

  def set_state(self, state: typing.Mapping[str, np.ndarray]) -> None:
    """Continues from the memory that `get_state` returned."""
    self._action, self._state = state["action"], state[STATE]

  def _begin(self, batch_size: int) -> None:
    self._action, self._state = (
      np.zeros((batch_size, *spec.shape), spec.dtype)
      for spec in (self._action_spec, self._state_spec)
    )


def sequence_inputs(sequence: typing.Any, concat: typing.Any) -> Inputs:
  """Returns the inputs [B, T + 1, ...] of a `sequences.Sequence`.

  Args:
    sequence: with [B, ...] in each field.
    concat: of an `ops` module.
  """

  def join(before: Array, others: Array) -> Array:
    return concat([before[:, None], others], 1)

  return Inputs(
    sequence.observation,
    join(sequence.action_before, sequence.action),
    join(sequence.reward_before, sequence.reward),
    sequence.first,
  )
