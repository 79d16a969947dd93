"""The highest priority so far, which new items get until they are sampled."""

import numpy as np
import tensorflow as tf

from slipway.agents import core
from slipway.replay.items import priorities
from slipway.replay.tables import dataset


class HighestPriority(tf.Module):
  """The highest priority of all updates, for workers that know no error.

    p_t = max_{i<t} p_i,  p_1 = 1

  Schaul et al. 2016, "Prioritized experience replay"
  (https://arxiv.org/abs/1511.05952), algorithm 1, lines 2 and 6. Workers have
  neither the critics nor a divergence of distributions, so they get it with the
  variables, and it is as old as these.
  """

  def __init__(self, is_used: bool):
    """Starts at 1; if it is not used, it records and publishes nothing."""
    super().__init__(name=priorities.HIGHEST)
    self._is_used = is_used
    self._value = tf.Variable(tf.ones(()), trainable=False)

  def add(self, update: core.Update, batch: dataset.Batch) -> core.Update:
    """Records the priorities of an update, and returns the update."""
    if not self._is_used:
      return update
    new = batch.take_from_table(update.priorities)
    new = priorities.mean_per_item(new, batch.keys.shape[0])
    # A priority that is not finite is not sent to the table.
    new = tf.where(tf.math.is_finite(new), new, tf.zeros_like(new))
    self._value.assign(tf.maximum(self._value, tf.reduce_max(new)))
    return update

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns the priority for the workers, float32 [], by name."""
    value = np.asarray(self._value.numpy())
    return {priorities.HIGHEST: value} if self._is_used else {}

  @property
  def checkpointed(self) -> dict[str, tf.Module]:
    """The priority, also if unused, as a resume may change the sampler."""
    return {priorities.HIGHEST: self}
