"""Tests of the rates of workers and trainer, for each mode and table."""

import typing

import pytest

from slipway.configs import apex_dqn, dqn, ppo
from slipway.environments import factory
from slipway.launch.control import rates as rates_lib
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_status
from tests.replay import given

REPLAY = given.make_table_spec(
  min_size=1_000, samples_per_insert=8.0, batch_size=64, round_steps=800
)
UNLIMITED = given.make_table_spec(
  min_size=1_000, samples_per_insert=0.0, batch_size=64, round_steps=800
)
QUEUE = given.make_table_spec(
  prioritized=False,
  capacity=16,
  min_size=1,
  batch_size=8,
  steps_per_item=32,
  samples_per_insert=1.0,
  is_queue=True,
)
TABLES = {
  "replay": REPLAY,
  "unlimited": UNLIMITED,
  "queue": QUEUE,
  "none": None,
}


def make_rates(mode="async", table: typing.Any = REPLAY, environments=8):
  config = dqn.get_config()
  config.mode = mode
  config.topology.environments_per_worker = environments
  config.variables.publish_period = 7
  config.learner.steps_per_call = 20
  return rates_lib.Rates(config, table)


def counts_of(table, size, inserted=None, sampled=0):
  inserted = size if inserted is None else inserted
  return table_status.TableStatus.from_counts(
    size, inserted, sampled, table.min_size
  )


_RATIO = limiter_lib.Limiter(8.0, 1_000, 4_000.0, 12_000.0)
_MIN_SIZE = limiter_lib.Limiter.from_min_size(1_000)
_ROUND_RATIO = limiter_lib.Limiter.from_min_size(1_000, 8.0)
_QUEUE = limiter_lib.Limiter.from_queue(16)
_ROUND_QUEUE = limiter_lib.Limiter.from_queue(limiter_lib.UNBOUNDED)

# mode, table, limiter, batch steps of each of 2 workers per round, updates per
# call, trainer steps between publications
MODES = [
  ("async", "replay", _RATIO, None, 20, 7),
  ("async", "unlimited", _MIN_SIZE, None, 20, 7),
  ("async", "queue", _QUEUE, None, 20, 7),
  ("async", "none", None, None, 20, 7),
  ("sync", "replay", _ROUND_RATIO, 50, 20, 100),
  ("sync", "queue", _ROUND_QUEUE, 32, 20, 1),
  ("sync", "none", None, None, 20, 7),  # without workers, there are no rounds
  ("single", "replay", _RATIO, None, 1, 7),
  ("single", "queue", _QUEUE, None, 1, 7),
  ("single", "none", None, None, 1, 7),
]


@pytest.mark.parametrize(
  ("mode", "table", "limiter", "worker_steps", "updates", "period"), MODES
)
def test_modes(mode, table, limiter, worker_steps, updates, period):
  rates = make_rates(mode, TABLES[table])
  assert rates.limiter == limiter
  assert rates.worker_steps(workers=2) == worker_steps
  assert rates.updates_per_call == updates
  assert rates.publish_period == period
  assert rates.in_rounds == (worker_steps is not None)
  assert rates.in_one_process == (mode == "single")


# environment steps per round, environments per worker, workers, batch steps of
# each worker per round
WORKER_STEPS = [
  (800, 8, 1, 100),
  (800, 8, 2, 50),
  (801, 8, 2, 51),  # rounded up
  (1, 8, 4, 1),
  (128, 16, 8, 1),
]


@pytest.mark.parametrize(
  ("round_steps", "environments", "workers", "steps"), WORKER_STEPS
)
def test_worker_steps_of_replay(round_steps, environments, workers, steps):
  table = given.make_table_spec(round_steps=round_steps)
  rates = make_rates("sync", table, environments)
  assert rates.worker_steps(workers) == steps


# batch size, steps per item, shards, environments per worker, workers, batch
# steps of each worker per round
QUEUE_STEPS = [
  (8, 32, 1, 8, 1, 32),
  (8, 32, 1, 8, 2, 32),  # two batches: each worker writes one
  (8, 32, 1, 4, 1, 64),
  (8, 32, 1, 2, 2, 64),
  (9, 32, 1, 8, 1, 64),
  (8, 32, 2, 8, 1, 64),
  (8, 32, 2, 8, 2, 32),
]


@pytest.mark.parametrize(
  ("batch_size", "unroll", "shards", "environments", "workers", "steps"),
  QUEUE_STEPS,
)
def test_worker_steps_of_a_queue(
  batch_size, unroll, shards, environments, workers, steps
):
  table = given.make_table_spec(
    prioritized=False,
    batch_size=batch_size,
    steps_per_item=unroll,
    shards=shards,
    is_queue=True,
  )
  rates = make_rates("sync", table, environments)
  assert rates.worker_steps(workers) == steps


# environment steps per round, steps per item, relabelled items for each other
# one, samples per insert, batch size, updates per round
PERIODS = [
  (800, 1, 0, 8.0, 64, 100),
  (800, 1, 0, 1.0, 64, 12),
  (8, 1, 0, 1.0, 64, 1),
  (800, 10, 0, 4.0, 16, 20),
  (800, 4, 3, 8.0, 64, 100),
]


@pytest.mark.parametrize(
  (
    *("round_steps", "steps_per_item", "relabelled"),
    *("ratio", "batch_size", "updates"),
  ),
  PERIODS,
)
def test_a_round_has_one_publication(
  round_steps, steps_per_item, relabelled, ratio, batch_size, updates
):
  table = given.make_table_spec(
    round_steps=round_steps,
    steps_per_item=steps_per_item,
    relabelled=relabelled,
    samples_per_insert=ratio,
    batch_size=batch_size,
  )
  assert make_rates("sync", table).publish_period == updates


# shards, (size, inserted, sampled) of each running table, updates of the round.
# The minimum size is 100, an insert grants 2 samples, a batch has 16 items.
ROUND_UPDATES = [
  (1, [(99, 99, 0)], 0),
  (1, [(100, 100, 0)], 0),  # the first 100 items grant no samples
  (1, [(107, 107, 0)], 0),  # grants 14 samples
  (1, [(108, 108, 0)], 1),
  (1, [(151, 151, 0)], 6),
  (1, [(151, 151, 96)], 0),  # 6 samples remain
  (1, [(156, 156, 96)], 1),  # and are used in the next round
  (1, [(120, 9_000, 17_480)], 20),  # a full table; all inserts count
  (1, [(151, 151, 500)], 0),
  (1, [(99, 9_000, 0)], 0),  # has lost items
  (1, [], 0),  # no server is up
  (2, [(150, 150, 50), (150, 150, 54)], 6),
  (
    2,
    [(300, 300, 250), (150, 150, 250)],
    0,
  ),  # shards are sampled equally often
  (2, [(300, 300, 234), (150, 150, 234)], 2),
  (2, [(300, 300, 0), (99, 99, 0)], 0),
  (2, [(300, 300, 200)], 0),  # one server is down, so the sum is unknown
]


@pytest.mark.parametrize(("shards", "counts", "updates"), ROUND_UPDATES)
def test_updates_of_a_round(shards, counts, updates):
  table = given.make_table_spec(
    shards=shards,
    round_steps=800,
    samples_per_insert=2.0,
    batch_size=16,
    min_size=100,
  )
  rates = make_rates("sync", table)
  statuses = [counts_of(table, *each) for each in counts]
  assert rates.updates_of_round(statuses) == updates


# items in each server's queue, updates of the round
QUEUED = [([], 0), ([0], 0), ([7], 0), ([8], 1), ([23], 2), ([15, 9], 2)]


@pytest.mark.parametrize(("sizes", "updates"), QUEUED)
def test_updates_of_a_round_use_the_items_in_the_queues(sizes, updates):
  rates = make_rates("sync", QUEUE)
  statuses = [counts_of(QUEUE, size) for size in sizes]
  assert rates.updates_of_round(statuses) == updates


@pytest.mark.parametrize(
  ("mode", "table", "environments", "workers", "whole"),
  [
    ("sync", QUEUE, 8, 1, True),
    ("sync", QUEUE, 8, 3, True),
    ("sync", QUEUE, 2, 2, True),
    ("sync", QUEUE, 5, 1, False),  # 10 items, for batches of 8
    ("sync", QUEUE, 8, 0, False),
    ("async", QUEUE, 8, 1, False),
    ("sync", None, 8, 1, False),
  ],
)
def test_rounds_of_whole_batches(mode, table, environments, workers, whole):
  rates = make_rates(mode, table, environments)
  assert rates.rounds_are_whole(workers) == whole


def test_without_a_table_no_round_and_no_update_is_granted():
  rates = make_rates("sync", None)
  assert rates.updates_of_round([]) == 0
  assert rates.scheduled_ratio == (0, 0.0)


# table, inserted items, sampled items, whether another update is due
DUE = [
  ("replay", 0, 0, False),
  ("replay", 1_000, 0, False),
  ("replay", 1_001, 0, True),
  ("replay", 1_001, 64, False),
  ("replay", 1_008, 64, False),
  ("replay", 1_009, 64, True),
  # Without a ratio, each item grants one update.
  ("unlimited", 1_000, 0, False),
  ("unlimited", 1_001, 0, True),
  ("unlimited", 1_001, 64, False),
  ("unlimited", 1_002, 64, True),
  ("queue", 7, 0, False),
  ("queue", 8, 0, True),
  ("queue", 8, 8, False),
  ("queue", 15, 8, False),
  ("queue", 16, 8, True),
]


@pytest.mark.parametrize(("table", "inserted", "sampled", "due"), DUE)
def test_an_update_is_due(table, inserted, sampled, due):
  rates = make_rates("single", TABLES[table])
  status = counts_of(TABLES[table], inserted - sampled, inserted, sampled)
  assert rates.is_update_due(status) == due


@pytest.mark.parametrize("table", ["replay", "queue"])
def test_polls_and_sleeps_are_shorter_in_rounds(table):
  free, rounds = (make_rates(mode, TABLES[table]) for mode in ("async", "sync"))
  assert rounds.poll_period_s < free.poll_period_s
  assert rounds.idle_s < free.idle_s


def test_a_trainer_polls_a_queue_more_often():
  assert make_rates(table=QUEUE).trainer_idle_s < make_rates().trainer_idle_s


@pytest.mark.parametrize("algorithm", [dqn, apex_dqn, ppo])
def test_rates_of_a_config(algorithm):
  config = algorithm.get_config()
  spec = factory.make_spec(config.environment)
  rates = rates_lib.Rates.from_config(config, spec)
  assert rates.table is not None
  assert rates.table.is_queue == (algorithm is ppo)
  assert rates.in_rounds == (config.mode == "sync")
  if algorithm is not ppo:
    ratio = rates.table.samples_per_insert
    assert ratio == config.replay.samples_per_insert
