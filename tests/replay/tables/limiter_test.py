"""Tests of Limiter: its bounds and decisions equal those of Reverb's table."""

import sys

import numpy as np
import pytest
import reverb

from slipway.replay.tables import limiter, table_status, tables
from tests.replay import given

Table = table_status.TableStatus

# Limiter settings: min_size, samples_per_insert, tolerance.
REPLAYS = [
  (1_000, 8.0, 0.5),
  (3, 8.0, 0.1),
  (3, 0.25, 0.1),
  (4, 1.0, 2.0),
  (5, 0.0, 0.5),
]


def make_spec(min_size, ratio, tolerance, batch_size=2):
  return given.make_table_spec(
    4,
    prioritized=False,
    batch_size=batch_size,
    min_size=min_size,
    samples_per_insert=ratio,
    tolerance=tolerance,
  )


def make_queue(capacity, limiter=None):
  """Returns the spec of a queue, and its table."""
  spec = given.make_table_spec(
    4, prioritized=False, capacity=capacity, is_queue=True
  )
  return spec, tables.make_table(spec, limiter)


def check_allowed(table, allowed):
  """Checks that Reverb allows exactly this many samples at once."""
  assert allowed == 0 or table.can_sample(min(allowed, 10**9))
  assert allowed == sys.maxsize or not table.can_sample(allowed + 1)


def read_limiter(table):
  """Returns the limiter settings of a Reverb table."""
  info = table.info.rate_limiter_info
  return limiter.Limiter(
    info.samples_per_insert,
    info.min_size_to_sample,
    info.min_diff,
    info.max_diff,
  )


@pytest.mark.parametrize("replay", REPLAYS)
def test_reverb_has_the_same_settings(replay):
  spec = make_spec(*replay)
  assert read_limiter(tables.make_table(spec)) == spec.limiter


@pytest.mark.parametrize("capacity", [1, 64])
def test_reverbs_queue_has_the_same_settings(capacity):
  spec, table = make_queue(capacity)
  own = reverb.Table.queue("queue", capacity)
  assert read_limiter(table) == read_limiter(own) == spec.limiter
  assert spec.limiter.bounded


def allows_insert(counts, now):
  """Whether a table with these bounds accepts one more insert, by Reverb."""
  after = counts.difference(now.inserted + 1, now.sampled)
  return now.size + 1 <= counts.min_size or after <= counts.max_diff


def check_against_reverb(table, counts, is_queue=False):
  """Compares decisions in a random order of inserts and samples.

  An insert or a sample that would block is skipped.
  """
  server = reverb.Server([table])
  client = reverb.Client(f"localhost:{server.port}")
  random = np.random.default_rng(3)
  inserted = sampled = blocked = 0
  record = np.zeros(4, np.uint8)
  for _ in range(60):
    now = Table(inserted - sampled * is_queue, inserted, sampled)
    if random.random() < 0.5:
      free = allows_insert(counts, now)
      assert table.can_insert(1) == free
      if free:
        client.insert(record, {tables.TRANSITIONS: 1.0})
        inserted += 1
    else:
      free = counts.samples_allowed(now) > 0
      assert table.can_sample(1) == free
      check_allowed(table, counts.samples_allowed(now))
      if free:
        (_,) = client.sample(tables.TRANSITIONS)
        sampled += 1
    blocked += not free
  server.stop()
  assert blocked and inserted and sampled


@pytest.mark.parametrize("replay", REPLAYS[1:])
def test_reverb_blocks_the_same_side(replay):
  spec = make_spec(*replay)
  check_against_reverb(tables.make_table(spec), spec.limiter)


@pytest.mark.parametrize(("capacity", "is_sync"), [(1, 0), (3, 0), (1, 1)])
def test_reverb_blocks_the_same_side_of_a_queue(capacity, is_sync):
  """In mode 'sync', a queue blocks samples only."""
  spec, _ = make_queue(capacity)
  used = spec.round_limiter if is_sync else spec.limiter
  assert used.bounded == (not is_sync)
  check_against_reverb(make_queue(capacity, used)[1], used, is_queue=True)


# Limiter settings: min_size, samples_per_insert, tolerance, batch_size.
SMALL = [
  (1, 8.0, 0.5, 64),
  (1, 1.0, 1e-6, 1),
  (7, 1 / 3, 0.1, 32),
  (3, 0.1, 0.1, 20),
  (2, 30.7, 1e-6, 50),
]


def random_config(random) -> tuple[int, float, float, int]:
  return (
    int(random.integers(1, 30)),
    float(10 ** random.uniform(-1, 1.5)),
    float(10 ** random.uniform(-6, 0.3)),
    int(random.integers(1, 80)),
  )


@pytest.mark.parametrize("seed", range(10))
def test_inserts_alone_allow_a_whole_batch(seed):
  """Inserts alone allow a whole batch, after any numbers of samples."""
  random = np.random.default_rng(seed)
  min_size, ratio, tolerance, batch_size = (
    SMALL[seed] if seed < len(SMALL) else random_config(random)
  )
  spec = make_spec(min_size, ratio, tolerance, batch_size)
  counts, table = spec.limiter, tables.make_table(spec)
  server = reverb.Server([table])
  client = reverb.Client(f"localhost:{server.port}")
  inserted = sampled = 0
  record = np.zeros(4, np.uint8)

  def insert():
    nonlocal inserted
    assert allows_insert(counts, Table(inserted, inserted, sampled))
    client.insert(record, {tables.TRANSITIONS: 1.0})
    inserted += 1

  for _ in range(5):
    while table.can_insert(1):
      insert()
    allowed = counts.samples_allowed(Table(inserted, inserted, sampled))
    check_allowed(table, allowed)
    assert allowed >= batch_size
    # The trainer takes any number of the allowed samples, sometimes all.
    taken = int(random.integers(1, allowed)) if allowed > 1 else 1
    taken = allowed if random.random() < 0.3 else taken
    sampled += len(list(client.sample(tables.TRANSITIONS, taken)))
    for _ in range(int(random.integers(0, 5))):
      if table.can_insert(1):
        insert()
  server.stop()
  assert sampled >= 5


EIGHT = limiter.Limiter(8.0, 1_000, 4_000.0, 12_000.0)
QUARTER = limiter.Limiter(0.25, 4, -1.0, 3.0)
FREE = limiter.Limiter.from_min_size(5)
FREE_QUARTER = limiter.Limiter.from_min_size(5, 0.25)
QUEUE = limiter.Limiter.from_queue(3)


# Size, inserts and samples of a table; whether an insert is allowed, and the
# samples allowed.
COUNTS = [
  (EIGHT, (0, 0, 0), (True, 0)),
  (EIGHT, (999, 999, 0), (True, 0)),
  (EIGHT, (1_000, 1_000, 0), (True, 4_000)),
  (EIGHT, (1_499, 1_499, 0), (True, 7_992)),
  (EIGHT, (1_500, 1_500, 0), (False, 8_000)),
  (EIGHT, (1_500, 1_500, 7), (False, 7_993)),
  (EIGHT, (1_500, 1_500, 8), (True, 7_992)),
  (EIGHT, (1_500, 1_500, 7_999), (True, 1)),
  (EIGHT, (1_500, 1_500, 8_000), (True, 0)),
  # The oldest items are evicted: the minimum refers to the size.
  (EIGHT, (900, 90_000, 700_000), (True, 0)),
  # A restored table may exceed the bound.
  (EIGHT, (1_000, 90_000, 720_000), (True, 0)),
  (QUARTER, (4, 4, 2), (True, 0)),
  (QUARTER, (8, 8, 2), (True, 1)),
  (QUARTER, (12, 12, 0), (False, 4)),
  (FREE, (4, 4, 0), (True, 0)),
  (FREE, (5, 10**12, 10**9), (True, sys.maxsize)),
  (FREE_QUARTER, (4, 4, 0), (True, 0)),
  (FREE_QUARTER, (5, 5, 10**9), (True, sys.maxsize)),
  (QUEUE, (0, 0, 0), (True, 0)),
  (QUEUE, (2, 10, 8), (True, 2)),
  (QUEUE, (3, 10, 7), (False, 3)),
  (QUEUE, (0, 10, 10), (True, 0)),
]


@pytest.mark.parametrize(("counts", "now", "expected"), COUNTS)
def test_inserts_and_samples_that_are_allowed(counts, now, expected):
  now = Table(*now)
  assert expected == (allows_insert(counts, now), counts.samples_allowed(now))
  assert counts.bounded == (counts not in (FREE, FREE_QUARTER))


# samples_per_insert, min_diff, inserted, sampled, samples allowed, and the
# result of a plain subtraction of doubles.
ROUNDED = [(0.1, -1.9, 1, 1, 1, 0), (0.7, 2.3, 19, 2, 8, 9)]


@pytest.mark.parametrize("case", ROUNDED)
def test_rounding_equals_reverbs(case):
  ratio, min_diff, inserted, sampled, allowed, rounded = case
  assert int(inserted * ratio - sampled - min_diff) == rounded
  counts = limiter.Limiter(ratio, 1, min_diff, 99.0)
  table = reverb.Table(
    tables.TRANSITIONS,
    sampler=reverb.selectors.Uniform(),
    remover=reverb.selectors.Fifo(),
    max_size=99,
    rate_limiter=reverb.rate_limiters.RateLimiter(*counts),
  )
  server = reverb.Server([table])
  client = reverb.Client(f"localhost:{server.port}")
  for _ in range(inserted):
    client.insert(np.zeros(4, np.uint8), {tables.TRANSITIONS: 1.0})
  list(client.sample(tables.TRANSITIONS, sampled))
  assert counts.samples_allowed(Table(inserted, inserted, sampled)) == allowed
  check_allowed(table, allowed)
  server.stop()
