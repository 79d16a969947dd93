"""Plan: the sums by hand, and what they must obey whatever is measured."""

import pytest

from benchmarks import scale_plan

CARRIED = scale_plan.Capacities(
  inserts_per_s=10_000.0,
  samples_per_s=40_000.0,
  updates_per_s=500.0,
  relays_per_s=20_000.0,
  fetches_per_s=100.0,
  steps_per_s=5_000.0,
)
WORK = scale_plan.Work(
  steps_per_item=4, samples_per_insert=8.0, batch_size=16, publish_period=20
)


def plan(shards=1, cores=8, **changes):
  carried = {k: v for k, v in changes.items() if k in CARRIED._fields}
  work = {k: v for k, v in changes.items() if k in WORK._fields}
  return scale_plan.make_plan(
    CARRIED._replace(**carried), WORK._replace(**work), shards, cores
  )


def parts(made):
  return {part.name: part for part in made.parts}


def test_by_hand():
  made = plan()
  found = parts(made)
  # An insert takes 1/10,000 s of the server and its 8 samples 8/40,000 s.
  assert found["replay"].steps_per_s == pytest.approx(4 / (0.0001 + 0.0002))
  # 500 updates of 16 items use up 1,000 inserts of 4 steps.
  assert found["trainer"].steps_per_s == pytest.approx(4_000.0)
  assert found["trainer"].workers == pytest.approx(0.8)
  # 80,000 steps/s through a proxy: a worker needs a 16th of a core of it.
  assert found["proxy"].workers == pytest.approx(16.0)
  assert found["proxy"].machines is None
  assert made.workers_per_machine == 7  # 8 / (1 + 1 / 16)
  assert found["trainer"].machines == pytest.approx(4_000 / 35_000)
  # The trainer publishes at most 25 versions a second, to 4 machines each.
  assert found["variables"].machines == pytest.approx(4.0)
  assert made.first == found["trainer"]


def test_variables_of_a_slow_fleet():
  # At 35,000 steps/s a machine, a trainer that keeps up makes 4,375 updates/s
  # and 218.75 versions/s for each machine: m of them fetch m * m * 218.75.
  found = parts(plan(updates_per_s=1e6, fetches_per_s=875.0))
  assert found["variables"].machines == pytest.approx(2.0)


@pytest.mark.parametrize("shards", [2, 4, 8])
def test_shards_multiply_replay_alone(shards):
  one, more = parts(plan()), parts(plan(shards))
  assert more["replay"].steps_per_s == pytest.approx(
    shards * one["replay"].steps_per_s
  )
  for name in ("trainer", "variables", "proxy"):
    assert more[name] == one[name]


def test_the_first_moves_with_the_shards():
  fast = {"updates_per_s": 5_000.0, "fetches_per_s": 1e6}
  firsts = [plan(shards, **fast).first.name for shards in (1, 2, 4)]
  assert firsts == ["replay", "replay", "trainer"]


def test_more_samples_an_insert_feed_fewer_workers():
  few, many = parts(plan()), parts(plan(samples_per_insert=16.0))
  assert many["replay"].workers < few["replay"].workers
  assert many["trainer"].workers == pytest.approx(few["trainer"].workers / 2)


def test_a_slow_proxy_limits_its_machine():
  made = plan(cores=64, relays_per_s=2_500.0)
  # A proxy that relays for two workers has no more, whatever the cores.
  assert made.workers_per_machine == 2
  assert plan(cores=64).workers_per_machine == 16
  # There is a worker even where it makes more than its proxy relays.
  assert plan(relays_per_s=100.0).workers_per_machine == 1


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan")])
def test_no_ratio_is_refused(ratio):
  with pytest.raises(ValueError, match="samples_per_insert") as error:
    plan(samples_per_insert=ratio)
  assert "\n" not in str(error.value)
