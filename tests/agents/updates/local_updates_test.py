"""Tests of LocalUpdates and SampledUpdate, with in-process tables."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.updates import graph_loop, local_updates
from slipway.replay.tables import local_table, table_status
from tests.agents.updates import given

UNIFORM = given.make_spec(is_queue=False)
PRIORITIZED = dataclasses.replace(UNIFORM, priority_exponent=1.0)


def test_one_update_on_sampled_items():
  learner = given.RecordingLearner()
  update = graph_loop.SampledUpdate(learner, given.make_spec())
  for call in range(3):
    data = given.make_sequences(100 * call, 8)
    last, priorities = update(
      np.arange(8, dtype=np.uint64), np.ones(8), 20, data
    )
    assert priorities is None
    assert last.metrics == {"mean": 100 * call + 3.5, "step": call + 1.0}
    expected = 100 * call + np.arange(8)[:, None] + np.arange(given.STEPS)
    np.testing.assert_array_equal(last.versions, expected)
  assert learner.learned == [
    100 * call + i for call in range(3) for i in range(8)
  ]
  assert learner.steps.numpy() == 3


def test_metrics_have_any_type():
  learner = given.RecordingLearner()
  learner.metrics = {
    "count": tf.constant(3),
    "steps": tf.constant(2**40, tf.int64),
    "exact": tf.constant(0.5, tf.float64),
    "done": tf.constant(True),
  }
  update = graph_loop.SampledUpdate(learner, given.make_spec())
  data = given.make_sequences(0, 8)
  last, _ = update(np.arange(8, dtype=np.uint64), np.ones(8), 20, data)
  expected = {"count": 3.0, "steps": 2.0**40, "exact": 0.5, "done": 1.0}
  assert last.metrics == {"mean": 3.5, "step": 1.0, **expected}


def make_updates(learner, spec, due=lambda status: True, seed=0):
  table = local_table.make_table(spec, seed)
  updates = local_updates.LocalUpdates(learner, spec, table, due)
  return table, updates


@pytest.mark.parametrize("prioritized", [False, True])
def test_only_prioritized_tables_get_new_priorities(prioritized):
  learner = given.RecordingLearner(prioritized)
  spec = PRIORITIZED if prioritized else UNIFORM
  table, updates = make_updates(learner, spec)
  table.insert(given.make_sequences(0, 20), np.ones(20))
  assert updates.run(2).metrics["step"] == 2.0
  assert learner.steps.numpy() == 2
  learned = set(learner.learned)
  weights = np.array([1_000.0 + i if i in learned else 1.0 for i in range(20)])
  if not prioritized:
    weights[:] = 1.0
  keys, probabilities, _, _ = table.sample(1_000)
  np.testing.assert_allclose(
    probabilities, (weights / weights.sum())[keys.astype(int)], rtol=1e-6
  )


def test_updates_are_run_while_they_are_due():
  learner = given.RecordingLearner()
  spec = dataclasses.replace(UNIFORM, min_size=10)

  def is_due(status):
    return status.size >= 10 and status.sampled + 8 <= 2 * status.inserted

  table, updates = make_updates(learner, spec, is_due)
  assert updates.run(5) is None
  assert updates.statuses() == [table_status.TableStatus()]
  table.insert(given.make_sequences(0, 9), np.ones(9))
  assert updates.run(5) is None
  table.insert(given.make_sequences(9, 3), np.ones(3))
  assert updates.run(2).metrics["step"] == 2.0  # 3 updates are due
  assert updates.run(5).metrics["step"] == 3.0
  assert updates.run(5) is None
  assert learner.steps.numpy() == 3
  assert updates.statuses() == [table_status.TableStatus(12, 12, 24, 12.0)]


def test_items_of_a_queue_are_learned_in_order_and_once():
  learner, spec = given.RecordingLearner(), given.make_spec()
  table, updates = make_updates(
    learner, spec, lambda status: status.size >= spec.batch_size
  )
  table.insert(given.make_sequences(0, 12), np.ones(12))
  assert updates.run(5).metrics["step"] == 1.0
  assert updates.run(5) is None
  (status,) = updates.statuses()
  assert (status.size, status.inserted, status.sampled) == (4, 12, 8)
  table.insert(given.make_sequences(12, 4), np.ones(4))
  assert updates.run(5).metrics["step"] == 2.0
  assert learner.learned == list(range(16))


def test_equal_seeds_learn_from_equal_items():
  def run(seed):
    learner = given.RecordingLearner(prioritized=True)
    table, updates = make_updates(learner, PRIORITIZED, seed=seed)
    for call in range(5):
      table.insert(given.make_sequences(10 * call, 10), np.ones(10))
      updates.run(3)
    return learner.learned

  assert run(3) == run(3)
  assert run(3) != run(4)


@pytest.mark.parametrize("prioritized", [False, True])
def test_the_last_elements_of_a_batch_are_recorded(prioritized):
  learner = given.RecordingLearner(prioritized)
  spec = PRIORITIZED if prioritized else UNIFORM
  spec = dataclasses.replace(spec, batch_size=6, recorded=2)
  table = local_table.make_table(spec, seed=0)
  table.insert(given.make_sequences(0, 20), np.ones(20))
  updates = local_updates.LocalUpdates(
    learner, spec, table, lambda _: True,
    lambda: tf.constant(given.make_sequences(500, 2)),
  )  # fmt: skip
  last = updates.run(5)
  learned = np.reshape(learner.learned, (5, 8))
  assert (learned[:, :6] < 20).all()
  np.testing.assert_array_equal(learned[:, 6:], [[500, 501]] * 5)
  assert last.versions.shape == (6, given.STEPS)
  assert table.sampled == 30
  new = set(learned[:, :6].ravel()) if prioritized else ()
  weights = np.array([1_000.0 + i if i in new else 1.0 for i in range(20)])
  keys, probabilities, _, _ = table.sample(1_000)
  np.testing.assert_allclose(
    probabilities, (weights / weights.sum())[keys.astype(int)], rtol=1e-6
  )
