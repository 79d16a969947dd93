"""Recurrent torsos: features of an episode so far, by a core's memory."""

import typing

import numpy as np
from acme import specs

from slipway.agents.networks import action_masks, cores, normalization, torsos
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

Array = layers_lib.Array  # np.ndarray or tf.Tensor

# Name of an extra of recurrent actors: states of the core before the step,
# float32 [B, S].
STATE = "state"


class Inputs(typing.NamedTuple):
  """Inputs of a recurrent network: a step [B, ...], or T steps [B, T, ...].

  Attributes:
    observation: observations.
    action_before: actions that led to the observations.
    reward_before: float32, rewards of these actions.
    first: bool, whether an observation begins an episode.
  """

  observation: Array
  action_before: Array
  reward_before: Array
  first: Array


class Features(typing.NamedTuple):
  """Outputs of a `RecurrentTorso` for N observations.

  Attributes:
    hidden: [N, H], outputs of the core, the features.
    state: [B, S], states of the core after the last step.
    penalty: penalties of illegal actions [N, A] or [A], or None; see
      `action_masks.MaskSplitter.split`.
  """

  hidden: Array
  state: Array
  penalty: Array | None


class RecurrentTorso:
  """A torso and a core, whose inputs include the last action and reward.

  Kapturowski et al. 2019, "Recurrent experience replay in distributed
  reinforcement learning", section 2.3. Discrete actions are one-hot. Where an
  episode begins, the core's state and the last action and reward are zero.

  Attributes:
    inputs: spec of each field of `Inputs` and of the core's state, in this
      order, without the batch dimension.
    prefers_numpy: whether the torso acts faster in NumPy than in TensorFlow.
  """

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    settings: layers_lib.TorsoSettings,
    core: cores.Core,
    scope: str = "",
  ):
    """Declares the torso.

    Args:
      scope: prefix of the names of the trained variables, for the second torso
        of a network; '': none.
    """
    self.inputs = (
      spec.observations,
      specs.Array(spec.actions.shape, spec.actions.dtype),
      specs.Array((), np.float32),
      specs.Array((), bool),
      specs.Array((core.state_size,), np.float32),
    )
    self.prefers_numpy = torsos.is_small(settings.kind, spec.observations)
    self._mask_splitter = action_masks.MaskSplitter(spec)
    # Observations are normalized by statistics that all torsos share.
    self._normalized = settings.normalized
    self._settings = settings._replace(normalized=False)
    self._core, self._scope = core, scope
    # Number of values of an action, or of each of its components.
    self._num_values = max(arrays.component_sizes(spec.actions) or (0,))

  def step(
    self, layers: layers_lib.Layers, inputs: Inputs, state: Array
  ) -> Features:
    """Returns the features of one step, which are N = B observations.

    Args:
      inputs: inputs of the step, [B, ...] each.
      state: states before the step, float32 [B, S].
    """
    x, continues, penalty = self._embed_inputs(layers, inputs)
    hidden, state = self._apply_core(layers, x, state * continues)
    return Features(hidden, state, penalty)

  def unroll(
    self, layers: layers_lib.Layers, inputs: Inputs, state: Array
  ) -> Features:
    """Returns the features of T steps, which are N = B * T observations.

    Args:
      inputs: inputs of the steps, [B, T, ...] each; T must be static.
      state: states before the first step, float32 [B, S].
    """
    ops, steps = layers.ops, inputs.first.shape[1]
    merged = Inputs(*(ops.reshape(x, (-1, *x.shape[2:])) for x in inputs))
    x, continues, penalty = self._embed_inputs(layers, merged)
    x = ops.reshape(x, (-1, steps, x.shape[1]))
    continues = ops.reshape(continues, (-1, steps, 1))
    hidden = []
    for t in range(steps):
      h, state = self._apply_core(layers, x[:, t], state * continues[:, t])
      hidden.append(h)
    features = ops.reshape(ops.stack(hidden, 1), (-1, hidden[0].shape[1]))
    return Features(features, state, penalty)

  def _embed_inputs(
    self, layers: layers_lib.Layers, inputs: Inputs
  ) -> tuple[Array, Array, Array | None]:
    """Computes the core's inputs from the network's inputs of one step."""
    ops = layers.ops
    observation, penalty = self._mask_splitter.split(ops, inputs.observation)
    continues = 1.0 - ops.float32(inputs.first)[:, None]
    if self._normalized:
      observation = normalization.normalize(
        layers, observation, self._mask_splitter.observations
      )
    features = torsos.apply_torso(
      layers.scoped(self._scope),
      self._settings,
      observation,
      self._mask_splitter.observations,
    )
    action = inputs.action_before
    if self._num_values:
      action = ops.one_hot(action, self._num_values)
    action = ops.float32(ops.flatten(action)) * continues
    # Bounded, as Acme's torsos of observation, action and reward have it: a
    # reward of thousands would saturate the gates.
    reward = ops.tanh(inputs.reward_before[:, None]) * continues
    return ops.concat([features, action, reward]), continues, penalty

  def _apply_core(
    self, layers: layers_lib.Layers, x: Array, state: Array
  ) -> tuple[Array, Array]:
    """Returns the features [B, H] and next states [B, S] of one step."""
    return self._core.step(layers.scoped(self._scope).scoped("core"), x, state)


class ActorMemory:
  """A recurrent actor's memory: last action and state per environment."""

  def __init__(self, inputs: tuple[specs.Array, ...]):
    """Makes an empty memory, which the first `recall` fills with zeros.

    Args:
      inputs: `RecurrentTorso.inputs` of the actor's network.
    """
    _, self._action_spec, _, _, self._state_spec = inputs
    self._reset(0)

  def recall(self, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the last actions [B, ...] and the core's states [B, S].

    If the batch size B changed, the memory is reset to zeros first.
    """
    if len(self._action) != batch_size:
      self._reset(batch_size)
    return self._action, self._state

  def store(self, action: np.ndarray, state: np.ndarray) -> None:
    """Stores the actions [B, ...] of a step, and the states after it."""
    self._action, self._state = action, state

  def get_state(self) -> dict[str, np.ndarray]:
    return {"action": self._action.copy(), STATE: self._state.copy()}

  def set_state(self, state: typing.Mapping[str, np.ndarray]) -> None:
    self._action, self._state = state["action"], state[STATE]

  def _reset(self, batch_size: int) -> None:
    """Sets the last actions and states of a batch to zeros."""
    self._action, self._state = (
      np.zeros((batch_size, *spec.shape), spec.dtype)
      for spec in (self._action_spec, self._state_spec)
    )


def sequence_inputs(sequence: typing.Any, concat: typing.Any) -> Inputs:
  """Returns a recurrent network's inputs [B, T + 1, ...] for sequences.

  A sequence has T steps and the T + 1 observations around them.

  Args:
    sequence: a `sequences.Sequence` of B sequences, [B, ...] in each field.
  """

  def prepend(before: Array, others: Array) -> Array:
    """Puts `before` [B, ...] in front of `others` [B, T, ...]."""
    return concat([before[:, None], others], 1)

  return Inputs(
    sequence.observation,
    prepend(sequence.action_before, sequence.action),
    prepend(sequence.reward_before, sequence.reward),
    sequence.first,
  )
