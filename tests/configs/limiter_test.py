"""Limiter: its numbers are those of the table that Reverb makes."""

import sys

import numpy as np
import pytest
import reverb

from configs import dqn, limiter
from replay import packing, tables

# min_size, samples_per_insert, tolerance
REPLAYS = [
  (1_000, 8.0, 0.5),
  (3, 8.0, 0.1),
  (3, 0.25, 0.1),
  (4, 1.0, 2.0),
  (5, 0.0, 0.5),
]


def make_config(min_size, ratio, tolerance):
  config = dqn.get_config()
  config.replay.update(
    min_size=min_size, samples_per_insert=ratio, tolerance=tolerance
  )
  return config


def make_table(config):
  layout = packing.Packing({"reward": (np.dtype(np.float32), ())})
  return tables.make_table(config, layout)


@pytest.mark.parametrize("replay", REPLAYS)
def test_reverb_has_the_same_numbers(replay):
  config = make_config(*replay)
  info = make_table(config).info.rate_limiter_info
  assert limiter.Limiter.of(config) == limiter.Limiter(
    info.samples_per_insert,
    info.min_size_to_sample,
    info.min_diff,
    info.max_diff,
  )


@pytest.mark.parametrize("replay", REPLAYS[1:])
def test_reverb_lets_through_whom_it_says(replay):
  """Random inserts and samples, none of which would block."""
  config = make_config(*replay)
  counts = limiter.Limiter.of(config)
  table = make_table(config)
  server = reverb.Server([table])
  client = reverb.Client(f"localhost:{server.port}")
  random = np.random.default_rng(3)
  inserted = sampled = blocked = 0
  row = np.zeros(4, np.uint8)
  for _ in range(60):
    now = (inserted, inserted, sampled)
    if random.random() < 0.5:
      free = counts.samples_missing(*now) == 0
      assert table.can_insert(1) == free
      if free:
        client.insert(row, {tables.TRANSITIONS: 1.0})
        inserted += 1
    else:
      free = counts.inserts_missing(*now) == 0
      assert table.can_sample(1) == free
      if free:
        (_,) = client.sample(tables.TRANSITIONS)
        sampled += 1
    blocked += not free
  server.stop()
  assert blocked and inserted and sampled


# limiter, (size, inserted, sampled), inserts missing, samples missing
EIGHT = limiter.Limiter(8.0, 1_000, 4_000.0, 12_000.0)
QUARTER = limiter.Limiter(0.25, 4, -1.0, 3.0)
FREE = limiter.Limiter(1.0, 5, -sys.float_info.max, sys.float_info.max)
MISSING = [
  (EIGHT, (0, 0, 0), 1_000, 0),
  (EIGHT, (900, 900, 0), 100, 0),
  (EIGHT, (1_000, 1_000, 0), 0, 0),
  (EIGHT, (1_499, 1_499, 0), 0, 0),
  (EIGHT, (1_500, 1_500, 0), 0, 8),
  (EIGHT, (1_500, 1_500, 7), 0, 1),
  (EIGHT, (1_500, 1_500, 8), 0, 0),
  (EIGHT, (1_500, 1_500, 7_999), 0, 0),
  (EIGHT, (1_500, 1_500, 8_000), 1, 0),
  # The oldest are gone: it is the size that counts towards the minimum.
  (EIGHT, (900, 90_000, 700_000), 100, 0),
  (QUARTER, (4, 4, 2), 4, 0),
  (QUARTER, (12, 12, 0), 0, 1),
  (FREE, (4, 4, 0), 1, 0),
  (FREE, (5, 5, 10**9), 0, 0),
  (FREE, (5, 10**12, 0), 0, 0),
]


@pytest.mark.parametrize(("counts", "now", "inserts", "samples"), MISSING)
def test_what_is_missing(counts, now, inserts, samples):
  assert counts.inserts_missing(*now) == inserts
  assert counts.samples_missing(*now) == samples
  assert counts.bounded == (counts is not FREE)
