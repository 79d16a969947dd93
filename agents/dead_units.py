"""Dead units: ReLUs whose output no longer depends on the observations.

A ReLU that gives 0 for each observation has no gradient, so it stays as it is:
Sokar et al. 2023, "The dormant neuron phenomenon in deep reinforcement
learning" (https://arxiv.org/abs/2302.12902), definition 3.1, with tau = 0.
"""

import typing
from collections.abc import Callable

import tensorflow as tf

NAME = "dead_units"  # of the metric
# Updates between two measurements, each of which costs a forward pass.
_PERIOD = 500


class DeadUnitsMetric(tf.Module):
  """The share of a network's units that are dead, as last measured.

  It is measured once per `period` updates, and the same in between.

  Learners save it, so that a resumed run reports what one that never stopped
  reports.
  """

  def __init__(self, period: int = _PERIOD):
    super().__init__(name=NAME)
    self._period = period
    self._newest = tf.Variable(tf.zeros(()), trainable=False)

  def update(
    self, steps: typing.Any, measure: Callable[[], tf.Tensor]
  ) -> tf.Tensor:
    """Returns the share of dead units, [], after measuring it if that is due.

    Args:
      steps: updates done before this one, int64 [].
      measure: computes the share, []; see `Network.compute_dead_units`.
    """
    newest: typing.Any = self._newest
    return tf.cond(
      steps % self._period == 0,
      lambda: newest.assign(measure()),
      newest.read_value,
    )
