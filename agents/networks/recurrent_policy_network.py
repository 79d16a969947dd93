"""Networks of policies with memory, and optionally state values."""

import typing
from collections.abc import Callable

from acme import specs

from slipway.agents.networks import initializers, policy_head, recurrent
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class RecurrentPolicyNetwork:
  """Declaration of a policy network with a core, and optionally state values.

  State values share the policy's core, or have a torso and a core of their own.
  S is the size of the state of one core, or of both, the policy's first. P is
  the number of parameters of a distribution.

  Attributes:
    head: output layer of the policy.
  """

  needs_random = False

  def __init__(
    self,
    torso: recurrent.RecurrentTorso,
    head: policy_head.PolicyHead,
    value_torso: recurrent.RecurrentTorso | None,
    value_initializer: initializers.LayerInitializer | None,
  ):
    """Declares the network.

    Args:
      torso: declaration of the policy's torso.
      head: declaration of the policy's output layer.
      value_torso: declaration of the torso of the state values, of the same
        size and with a scope; None if there are no state values, or if they
        share the policy's torso. Workers need it, since rollouts store the
        state of both cores.
      value_initializer: initializer of the layer of state values, which
        learners need; None: there is no such layer.
    """
    self.inputs, self.prefers_numpy = torso.inputs, torso.prefers_numpy
    self.head = head
    if value_torso is not None:
      *step_inputs, state = torso.inputs
      both = specs.Array((2 * state.shape[0],), state.dtype)
      self.inputs = (*step_inputs, both)
    self._torso, self._value_torso = torso, value_torso
    self._value_initializer = value_initializer

  def __call__(
    self, layers: layers_lib.Layers, *inputs: Array
  ) -> tuple[Array, Array]:
    """Returns policy parameters [B, P], and the next state [B, S].

    Args:
      *inputs: fields of `recurrent.Inputs` [B, ...], then the state before the
        step [B, S].
    """
    *fields, state = inputs
    parameters, _, next_state = self._apply(
      recurrent.RecurrentTorso.step, layers, recurrent.Inputs(*fields), state
    )
    return parameters, next_state

  def unroll(
    self, layers: layers_lib.Layers, inputs: recurrent.Inputs, state: Array
  ) -> tuple[Array, Array]:
    """Returns policy parameters [B * T, P] and values [B * T] of T steps.

    Values are None if the network has no value layer.

    Args:
      inputs: inputs of the steps, [B, T, ...] each; T must be static.
      state: state before the first step, [B, S].
    """
    parameters, values, _ = self._apply(
      recurrent.RecurrentTorso.unroll, layers, inputs, state
    )
    return parameters, values

  def greedy(
    self, ops: typing.Any, outputs: tuple[Array, Array]
  ) -> dict[str, Array]:
    """Returns the greedy actions and the states after the step.

    Args:
      outputs: policy parameters [B, P], and states [B, S] after the step.

    Returns:
      {'action': [B, ...], 'next_state': [B, S]}; actions are the modes of the
      distributions.
    """
    parameters, state = outputs
    action = self.head.distribution(ops, parameters).mode()
    return {"action": action, "next_state": state}

  def _apply(
    self,
    apply: Callable[..., recurrent.Features],
    layers: layers_lib.Layers,
    inputs: recurrent.Inputs,
    state: Array,
  ) -> tuple[Array, Array | None, Array]:
    """Returns parameters [N, P], values [N] or None, and state [B, S]."""
    if self._value_torso is None:
      features = of_values = apply(self._torso, layers, inputs, state)
      next_state = features.state
    else:
      state, value_state = layers.ops.split(state, 2)
      features = apply(self._torso, layers, inputs, state)
      of_values = apply(self._value_torso, layers, inputs, value_state)
      next_state = layers.ops.concat([features.state, of_values.state])
    parameters = self.head(layers, features.hidden, features.penalty)
    values = None
    if self._value_initializer is not None:
      x = of_values.hidden
      values = layers.linear("value", x, 1, self._value_initializer)[:, 0]
    return parameters, values, next_state
