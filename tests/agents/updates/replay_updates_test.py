"""Tests of ReplayUpdates: frequencies, weights and priorities."""

import contextlib
import dataclasses
import threading

import ml_collections
import numpy as np
import portpicker
import pytest
import reverb
import tensorflow as tf

from slipway.agents import batch_weights, core
from slipway.agents.updates import replay_updates
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import tables, trajectory_manager
from slipway.replay.transport import routes
from tests import polling
from tests.agents.updates import table_server
from tests.replay import forked

PATTERN = [1.0, 2.0, 4.0]
SIZES = (120, 30)  # items of the two shards
COUNT = sum(SIZES)
UPDATES = 5  # updates per call
# Spec of the same tables, with which no update changes the priorities.
UNIFORM = dataclasses.replace(table_server.SPEC, priority_exponent=None)

pytestmark = pytest.mark.timeout(240)


class CountingLearner:
  """Learner that adds up samples and weights by item.

  The new priority of an item is its number plus 1000.
  """

  def __init__(self):
    self.samples = tf.Variable(tf.zeros(COUNT))
    self.weights = tf.Variable(tf.zeros(COUNT))
    self.steps = tf.Variable(tf.zeros((), tf.int64))

  def update(self, batch):
    weights = batch_weights.importance_weights(
      batch.probabilities,
      batch.table_size,
      tf.constant(1.0),
      batch.shard_weight,
    )
    index = tf.cast(batch.data.r_t, tf.int32)[:, None]
    for total, each in (
      (self.samples, tf.ones_like(weights)),
      (self.weights, weights),
    ):
      total.assign_add(tf.scatter_nd(index, each, [COUNT]))
    self.steps.assign_add(1)
    return core.Update(
      {"loss": tf.reduce_mean(weights), "count": tf.size(weights)},
      batch.data.r_t + 1000.0,
    )


@pytest.fixture
def ports():
  return [portpicker.pick_unused_port() for _ in SIZES]


def start(port, shard):
  first = sum(SIZES[:shard])
  priorities = PATTERN * (SIZES[shard] // 3)
  function = f"{table_server.__name__}:serve"
  return forked.running(function, port, first, priorities)


@pytest.fixture
def processes(ports):
  with start(ports[0], 0) as first, start(ports[1], 1) as second:
    yield first, second


@pytest.fixture
def make(ports):
  opened = []

  def make(learner, spec=UNIFORM, servers=2):
    addresses = [f"localhost:{port}" for port in ports[:servers]]
    opened.append(
      replay_updates.ReplayUpdates(learner, spec, spec.limiter, addresses)
    )
    return opened[-1]

  yield make
  for each in opened:
    each.close()


def by_shard(total):
  values = total.numpy()
  return values[: SIZES[0]], values[SIZES[0] :]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("servers", [1, 2])
def test_all_items_have_the_same_total_weight(make, servers):
  learner = CountingLearner()
  updates = make(learner, servers=servers)
  calls = 0
  while calls < 150 * servers:
    calls += updates.run(UPDATES) is not None
  sampled = calls * UPDATES * table_server.BATCH
  assert learner.steps.numpy() == calls * UPDATES
  for samples in by_shard(learner.samples)[:servers]:
    # The batches are split equally over servers. Within a server, items are
    # sampled by priority.
    assert samples.sum() == sampled / servers
    for offset, priority in enumerate(PATTERN):
      found = samples[offset::3].sum() / (sampled / servers)
      expected = priority / sum(PATTERN)
      # Five standard deviations of a binomial.
      deviation = np.sqrt(expected * (1 - expected) / (sampled / servers))
      assert abs(found - expected) < 5 * deviation
  # With beta = 1, the weights correct all differences: each third of each
  # server has the weight of its number of items. A third has 3,400 samples or
  # more, so 8.5 % are 5 standard deviations.
  shards = by_shard(learner.weights)[:servers]
  mean = np.concatenate(shards).mean()
  for shard in shards:
    for offset in range(3):
      found = shard[offset::3].mean() / mean
      assert found == pytest.approx(1.0, abs=0.085)


@pytest.mark.usefixtures("processes")
def test_the_last_update_is_returned(make):
  learner = CountingLearner()
  updates = make(learner)
  polling.wait_until(
    lambda: (last := updates.run(3)) is not None and check(last)
  )
  assert learner.steps.numpy() % 3 == 0
  assert sum(status.size for status in updates.statuses()) == COUNT


def check(last):
  assert set(last.metrics) == {"loss", "count"}
  assert last.metrics["count"] == table_server.BATCH
  assert 0.0 < last.metrics["loss"] <= 1.0
  np.testing.assert_array_equal(last.versions, np.ones(table_server.BATCH))
  return True


class ShardLearner:
  """Learner that adds up samples and weights by shard, which is the reward."""

  def __init__(self):
    self.totals = tf.Variable(tf.zeros((2, 2)))  # samples and weights, [2, S]
    self._replay = ml_collections.ConfigDict({"sampler": "uniform"})
    self._steps = tf.Variable(tf.zeros((), tf.int64))

  def update(self, batch):
    weights = batch_weights.compute(self._replay, batch, self._steps)
    of_shard = tf.one_hot(tf.cast(batch.data.r_t, tf.int32), 2)  # [B, S]
    samples = tf.reduce_sum(of_shard, axis=0)
    self.totals.assign_add([samples, tf.linalg.matvec(of_shard, weights, True)])
    return core.Update({"loss": tf.reduce_mean(weights)}, batch.data.r_t)


@contextlib.contextmanager
def serving_unequal_shards(ports, spec):
  """Serves two shards in this process; the second has half of the inserts.

  The rewards of the items are the number of their shard.
  """
  stop = threading.Event()

  def write(writers):
    while True:
      for shard, writer in enumerate(writers):
        while not writer.wait(timeout_s=0.2):
          if stop.is_set():
            return
        count = 4 >> shard
        records = table_server.make_records(np.full(count, shard))
        writer.write(records, np.ones(count))
      if stop.wait(0.001):
        return

  with contextlib.ExitStack() as stack:
    writers = []
    for port in ports:
      manager = trajectory_manager.TrajectoryManager(
        [tables.make_table(spec)], port
      )
      stack.callback(manager.close)
      route = routes.DirectRoute(manager.address)
      writers.append(
        writer_lib.ItemWriter(route, tables.TRANSITIONS, unconfirmed=1)
      )
      stack.callback(writers[-1].close, timeout_s=1.0)
    thread = threading.Thread(target=write, args=(writers,))
    thread.start()
    stack.callback(thread.join)
    stack.callback(stop.set)
    yield


def run_batches(updates, learner, batches):
  """Runs updates on this many batches in total; returns the totals [2, S]."""
  samples = batches * table_server.BATCH
  polling.wait_until(
    lambda: (updates.run(20), learner.totals.numpy()[0].sum() >= samples)[-1]
  )
  return learner.totals.numpy()


# ratio of samples to inserts, and samples of the second shard divided by those
# of the first one, which gets twice as many inserts
RATIOS = [(0.0, 1.0), (64.0, 0.5)]


@pytest.mark.parametrize(("samples_per_insert", "expected"), RATIOS)
def test_shards_have_weights_that_fit_the_limiter(
  make, ports, samples_per_insert, expected
):
  spec = dataclasses.replace(
    UNIFORM, samples_per_insert=samples_per_insert, capacity=50_000, min_size=50
  )
  learner = ShardLearner()
  with serving_unequal_shards(ports, spec):
    updates = make(learner, spec)
    before = run_batches(updates, learner, 4_000)
    samples, weights = run_batches(updates, learner, 12_000) - before
  assert samples[1] / samples[0] == pytest.approx(expected, rel=0.1)
  # The second shard has half of the items.
  assert weights[1] / weights[0] == pytest.approx(0.5, rel=0.1)


def priorities_at(port):
  """Returns the priorities of all items of a server, by reward."""
  found = {}
  client = reverb.Client(f"localhost:{port}")
  rewards = table_server.SCHEMA.record.unpack
  for item in client.sample(tables.TRANSITIONS, 2_000, emit_timesteps=False):
    reward = rewards(np.asarray(item.data[0])[None])["r_t"]
    found[float(np.squeeze(reward))] = item.info.priority
  return found


def test_priorities_are_sent_to_their_own_shard(make, ports, processes):
  del processes
  learner = CountingLearner()
  updates = make(learner, spec=table_server.SPEC)

  def are_pushed():
    updates.run(UPDATES)
    found = [priorities_at(port) for port in ports]
    return all(
      sum(priority > 1_000 for priority in one.values()) > size / 2
      for one, size in zip(found, SIZES, strict=True)
    )

  polling.wait_until(are_pushed)
  for shard, port in enumerate(ports):
    first = sum(SIZES[:shard])
    for reward, priority in priorities_at(port).items():
      assert first <= reward < first + SIZES[shard]
      before = PATTERN[int(reward) % 3]
      new = pytest.approx(reward + 1_000.0, abs=0.01)
      assert priority in (before, new)
