"""What a bonus takes from a batch, and what it returns."""

import typing
from collections.abc import Sequence

import tensorflow as tf


class Steps(typing.NamedTuple):
  """N steps of environments.

  Attributes:
    observation: [N, ...], observations before the steps, whitened and without
      action masks.
    action: [N, ...], actions of the spec, int32 or float32.
    next_observation: [N, ...], observations after the steps, as `observation`.
  """

  observation: tf.Tensor
  action: tf.Tensor
  next_observation: tf.Tensor


class Measured(typing.NamedTuple):
  """How new N steps are, and how much their results are still to be learned.

  Attributes:
    novelty: float32 [N], at least 0; without gradients.
    loss: float32 [N], whose minimization makes such steps less new.
  """

  novelty: tf.Tensor
  loss: tf.Tensor


class Novelty(typing.Protocol):
  """Networks that measure how new steps are; a tf.Module."""

  @property
  def learned(self) -> Sequence[tf.Variable]:
    """Variables that the loss trains."""
    ...

  def __call__(self, steps: Steps) -> Measured:
    """Measures steps."""
    ...
