"""Tests of RecordedUpdates: each update has the batch of its step."""

import numpy as np
import tensorflow as tf

from slipway.agents import core
from slipway.agents.updates import recorded_updates


class NumberedBatches:
  """Source of batches whose rewards are the number of the update."""

  def batch(self, step):
    return {"reward": np.full((2, 1), step, np.float32)}


class OrderLearner:
  """Learner whose result shows the order of its batches, as digits."""

  def __init__(self):
    self.steps = tf.Variable(tf.zeros((), tf.int64))
    self.digits = tf.Variable(0.0)

  def update(self, batch):
    assert batch.keys is None and batch.probabilities is None
    step = tf.reduce_mean(batch.data["reward"])
    self.digits.assign(10.0 * self.digits + step)
    self.steps.assign_add(1)
    return core.Update({"batch": step, "steps": self.steps})


def test_each_update_has_the_batch_of_its_step():
  learner = OrderLearner()
  updates = recorded_updates.RecordedUpdates(learner, NumberedBatches())
  assert updates.run(0) is None
  last = updates.run(3)
  assert last.metrics == {"batch": 2.0, "steps": 3.0}
  assert last.versions is None
  assert updates.run(2).metrics == {"batch": 4.0, "steps": 5.0}
  assert learner.digits.numpy() == 1_234
  assert list(updates.statuses()) == []
  updates.close()


def test_a_restored_learner_continues_with_its_step():
  learner = OrderLearner()
  learner.steps.assign(5)
  updates = recorded_updates.RecordedUpdates(learner, NumberedBatches())
  assert updates.run(4).metrics == {"batch": 8.0, "steps": 9.0}
  assert learner.digits.numpy() == 5_678
