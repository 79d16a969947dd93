"""Plan: results computed by hand, and properties of plans in general."""

import numpy as np
import pytest

from benchmarks.scale import plans

CAPACITIES = plans.Capacities(
  inserts_per_s=10_000.0,
  samples_per_s=40_000.0,
  updates_per_s=500.0,
  relays_per_s=20_000.0,
  fetches_per_s=100.0,
  steps_per_s=5_000.0,
)
WORK = plans.Work(
  steps_per_item=4, samples_per_insert=8.0, batch_size=16, publish_period=20
)


def plan(shards=1, cores=8, **changes):
  capacities = {k: v for k, v in changes.items() if k in CAPACITIES._fields}
  work = {k: v for k, v in changes.items() if k in WORK._fields}
  return plans.make_plan(
    CAPACITIES._replace(**capacities), WORK._replace(**work), shards, cores
  )


def parts(made):
  """Returns the components of a plan by name."""
  return {part.name: part for part in made.parts}


def test_a_plan_that_is_computed_by_hand():
  made = plan()
  found = parts(made)
  # An insert takes 1/10,000 s of the server; its 8 samples take 8/40,000 s.
  assert found["replay"].steps_per_s == pytest.approx(4 / (0.0001 + 0.0002))
  # 500 updates of 16 items use up the samples of 1,000 inserts of 4 steps each.
  assert found["trainer"].steps_per_s == pytest.approx(4_000.0)
  assert found["trainer"].workers == pytest.approx(0.8)
  # A proxy relays 80,000 steps/s with one core, so a worker needs a 16th of it.
  assert found["proxy"].workers == pytest.approx(16.0)
  assert found["proxy"].machines is None
  assert made.workers_per_machine == 7  # 8 / (1 + 1 / 16)
  assert found["trainer"].machines == pytest.approx(4_000 / 35_000)
  # The trainer publishes at most 25 versions per second, which 4 machines can
  # fetch.
  assert found["variables"].machines == pytest.approx(4.0)
  assert made.first == found["trainer"]


def test_variables_are_published_as_fast_as_the_workers_step():
  # Each machine makes 35,000 steps/s, for which the trainer makes 4,375
  # updates/s and 218.75 versions/s. So m machines fetch m * m * 218.75
  # versions/s.
  found = parts(plan(updates_per_s=1e6, fetches_per_s=875.0))
  assert found["variables"].machines == pytest.approx(2.0)


@pytest.mark.parametrize("shards", [2, 4, 8])
def test_shards_only_multiply_the_replay(shards):
  one, more = parts(plan()), parts(plan(shards))
  assert more["replay"].steps_per_s == pytest.approx(
    shards * one["replay"].steps_per_s
  )
  for name in ("trainer", "variables", "proxy"):
    assert more[name] == one[name]


def test_a_slow_proxy_limits_its_machine():
  made = plan(cores=64, relays_per_s=2_500.0)
  # The proxy relays for two workers only, whatever the number of cores.
  assert made.workers_per_machine == 2
  assert plan(cores=64).workers_per_machine == 16
  # A machine has at least one worker, even if its proxy relays less than that
  # worker makes.
  assert plan(relays_per_s=100.0).workers_per_machine == 1


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan")])
def test_an_invalid_ratio_is_rejected(ratio):
  with pytest.raises(ValueError, match="samples_per_insert") as error:
    plan(samples_per_insert=ratio)
  assert "\n" not in str(error.value)


def test_a_demand_that_is_computed_by_hand():
  sizes = plans.Sizes(sent=100, sampled=200, variables=50_000)
  demand = plans.make_demand(CAPACITIES, WORK, sizes, 1_000, 20)
  assert demand.steps_per_s == pytest.approx(5e6)
  # 1,250,000 items per second, of which the trainer samples 8,000.
  assert demand.samples_per_insert == pytest.approx(0.0064)
  assert demand.trainers == pytest.approx(1_250)
  # Inserts take 125 seconds of a core per second, samples 0.2.
  assert demand.shards == 126
  assert demand.proxy_cores == pytest.approx(3.125)
  assert demand.sent_mb_per_s == pytest.approx(125.0)
  assert demand.sampled_mb_per_s == pytest.approx(1.6)
  # 25 versions per second, to 20 machines
  assert demand.variables_mb_per_s == pytest.approx(25.0)
  slow = plans.make_demand(CAPACITIES, WORK, sizes, 1, 1)
  assert slow.samples_per_insert == pytest.approx(6.4)


def test_a_machine_is_as_fast_as_its_cores_or_its_trainer():
  cpu_s = plans.Capacities(1e-4, 2e-5, 5e-3, 5e-5, 1e-2, 2e-4)
  # A step takes 0.2 ms, and a quarter of an item 0.1 + 0.05 + 8 * 0.02 ms, and
  # half an update of 5 ms.
  predict = plans.predict_one_machine
  assert predict(cpu_s, 1e6, WORK, 2) == pytest.approx(2 / 902.5e-6)
  # 100 updates of 16 samples use up 200 items of 4 steps, which the others make
  # in 2.22 ms per update.
  steps_per_s = predict(cpu_s, 100.0, WORK, 2)
  share = plans.share_of_core(2, steps_per_s / 8 * 2.22e-3)
  assert steps_per_s == pytest.approx(800.0 * share)
  assert 0.95 < share < 1.0


@pytest.mark.parametrize(("cores", "demand"), [(1, 0.5), (2, 0.7), (2, 1.5)])
def test_the_share_of_a_core_is_that_of_a_simulated_scheduler(cores, demand):
  random = np.random.default_rng(0)
  left: list[float] = []  # seconds of each burst of 1 s on average
  next_s = now_s = got_s = 0.0
  while now_s < 100_000.0:
    speed = min(1.0, cores / (len(left) + 1))
    step_s = min([next_s - now_s, *(x / speed for x in left)])
    now_s += step_s
    got_s += speed * step_s
    left = [y for x in left if (y := x - speed * step_s) > 1e-9]
    if now_s >= next_s:
      left.append(random.exponential())
      next_s = now_s + random.exponential(1.0 / demand)
  found = plans.share_of_core(cores, demand)
  assert found == pytest.approx(got_s / now_s, abs=0.01)
