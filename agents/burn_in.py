"""The burn-in of sequences, which only updates a network's memory."""

import typing
from collections.abc import Callable

import tensorflow as tf

from slipway.agents.networks import recurrent


def warm_up(
  unroll: Callable[..., tuple[typing.Any, tf.Tensor]],
  inputs: recurrent.Inputs,
  state: tf.Tensor,
  steps: int,
) -> tuple[recurrent.Inputs, tf.Tensor]:
  """Returns the inputs after the burn-in, and the states [B, S] there.

  No gradient flows through the burn-in: Kapturowski et al. 2019, "Recurrent
  experience replay in distributed reinforcement learning", section 2.3.

  Args:
    unroll: function of inputs and states that returns outputs and the states
      after them.
    inputs: inputs of all steps, [B, T, ...] each.
    state: states before them, [B, S].
  """
  if steps:
    early = recurrent.Inputs(*(x[:, :steps] for x in inputs))
    state = tf.stop_gradient(unroll(early, state)[1])
  return recurrent.Inputs(*(x[:, steps:] for x in inputs)), state
