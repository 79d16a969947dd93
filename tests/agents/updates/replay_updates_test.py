"""The loop over shards: frequencies and weights, and a shard that dies."""

import functools
import threading
import time

import numpy as np
import portpicker
import pytest
import reverb
import tensorflow as tf

from agents import sharded_loop
from replay import dataset as dataset_lib
from replay import importance, priority_pusher, tables
from replay import shard as shard_lib
from tests.agents import table_server

PATTERN = [1.0, 2.0, 4.0]
SIZES = (120, 30)  # items of the two shards
COUNT = sum(SIZES)
DEADLINE_S = 60.0
UPDATES = 5  # a call

pytestmark = pytest.mark.timeout(240)


class Noting:
  """A learner that adds up what it is given; new priorities are 1000 more."""

  def __init__(self):
    self.draws = tf.Variable(tf.zeros(COUNT))
    self.weights = tf.Variable(tf.zeros(COUNT))
    self.steps = tf.Variable(tf.zeros((), tf.int64))

  def update(self, batch):
    weights = importance.importance_weights(
      batch.probabilities, batch.table_size, tf.constant(1.0), batch.share
    )
    index = tf.cast(batch.data.r_t, tf.int32)[:, None]
    for total, each in (
      (self.draws, tf.ones_like(weights)),
      (self.weights, weights),
    ):
      total.assign_add(tf.scatter_nd(index, each, [COUNT]))
    self.steps.assign_add(1)
    return batch.data.r_t + 1000.0, {"loss": tf.reduce_mean(weights)}


@pytest.fixture
def ports():
  return [portpicker.pick_unused_port() for _ in SIZES]


def start(port, shard):
  first = sum(SIZES[:shard])
  return table_server.running(port, first, PATTERN * (SIZES[shard] // 3))


@pytest.fixture
def processes(ports):
  with start(ports[0], 0) as first, start(ports[1], 1) as second:
    yield first, second


def make_loop(ports, learner, pushes):
  readings = []
  for index, port in enumerate(ports):
    address = f"localhost:{port}"
    shard = shard_lib.Shard(index, address, tables.TRANSITIONS)
    readings.append(
      sharded_loop.Reading(
        shard,
        functools.partial(
          dataset_lib.make_dataset,
          address,
          tables.TRANSITIONS,
          table_server.LAYOUT,
          table_server.BATCH,
        ),
        priority_pusher.PriorityPusher(shard, tables.TRANSITIONS)
        if pushes
        else None,
      )
    )
  return sharded_loop.ShardedLoop(
    learner,
    readings,
    functools.partial(dataset_lib.unpack, table_server.LAYOUT),
    batches_allowed=lambda status: 1_000 if status.size else 0,
  )


def until(condition, what):
  end_s = time.monotonic() + DEADLINE_S
  while not condition():
    assert time.monotonic() < end_s, what
    time.sleep(0.01)


@pytest.fixture
def make(ports):
  loops = []

  def make(learner, pushes=False):
    loops.append(make_loop(ports, learner, pushes))
    until(lambda: loops[-1].up == 2, "both are found")
    return loops[-1]

  yield make
  for loop in loops:
    loop.close()


def by_shard(total):
  values = total.numpy()
  return values[: SIZES[0]], values[SIZES[0] :]


@pytest.mark.usefixtures("processes")
def test_all_items_have_the_same_weight_in_the_end(make):
  learner = Noting()
  loop = make(learner)
  calls = 0
  while calls < 300:
    calls += loop.run(UPDATES) is not None
  drawn = calls * UPDATES * table_server.BATCH
  assert learner.steps.numpy() == calls * UPDATES
  for draws in by_shard(learner.draws):
    # Each shard has half of the batches, and by priority within.
    assert draws.sum() == drawn / 2
    for offset, priority in enumerate(PATTERN):
      found = draws[offset::3].sum() / (drawn / 2)
      expected = priority / sum(PATTERN)
      # Five standard deviations of a binomial.
      deviation = np.sqrt(expected * (1 - expected) / (drawn / 2))
      assert abs(found - expected) < 5 * deviation
  # With beta = 1 nothing is left of all that: each third of each shard has the
  # weight of its number of items. 3,400 draws or more each: 5 % are 3 standard
  # deviations.
  weights = learner.weights.numpy()
  for part in by_shard(learner.weights):
    for offset in range(3):
      found = part[offset::3].mean() / weights.mean()
      assert found == pytest.approx(1.0, abs=0.05)


def priorities_at(port):
  """By reward, of all items of a server."""
  found = {}
  client = reverb.Client(f"localhost:{port}")
  rewards = table_server.LAYOUT.row.unpack
  for item in client.sample(tables.TRANSITIONS, 2_000, emit_timesteps=False):
    reward = rewards(np.asarray(item.data[0])[None])["r_t"]
    found[float(np.squeeze(reward))] = item.info.priority
  return found


def test_priorities_go_to_their_own_shard(make, ports, processes):
  del processes
  learner = Noting()
  loop = make(learner, pushes=True)

  def drawn_and_known():
    loop.run(UPDATES)
    found = [priorities_at(port) for port in ports]
    return all(
      sum(priority > 1_000 for priority in one.values()) > size / 2
      for one, size in zip(found, SIZES, strict=True)
    )

  until(drawn_and_known, "priorities arrive")
  for shard, port in enumerate(ports):
    first = sum(SIZES[:shard])
    for reward, priority in priorities_at(port).items():
      assert first <= reward < first + SIZES[shard]
      before = PATTERN[int(reward) % 3]
      new = pytest.approx(reward + 1_000.0, abs=0.01)
      assert priority in (before, new)


def test_one_that_is_killed_is_left_out_and_comes_back(make, ports, processes):
  learner = Noting()
  loop = make(learner, pushes=True)
  for _ in range(6):
    loop.run(UPDATES)
  threading.Timer(0.2, processes[1].kill).start()
  until(lambda: (loop.run(UPDATES), loop.up == 1)[-1], "the loss is noticed")
  before = by_shard(learner.draws)
  for _ in range(20):
    assert loop.run(UPDATES) is not None
  after = by_shard(learner.draws)
  assert after[0].sum() == before[0].sum() + 20 * UPDATES * table_server.BATCH
  assert after[1].sum() == before[1].sum()
  with start(ports[1], 1):
    until(lambda: (loop.run(UPDATES), loop.up == 2)[-1], "it is found again")
    until(
      lambda: (
        loop.run(UPDATES),
        by_shard(learner.draws)[1].sum() > after[1].sum() + 1_000,
      )[-1],
      "it is read again",
    )


def test_all_are_gone(make, processes):
  learner = Noting()
  loop = make(learner)
  assert loop.run(UPDATES) is not None
  for process in processes:
    process.kill()
  until(lambda: (loop.run(UPDATES), loop.up == 0)[-1], "the loss is noticed")
  assert loop.run(UPDATES) is None
