"""Tests of seeds: processes of a run, and runs, share no random numbers."""

import itertools

from slipway.agents import seeds


def test_workers_of_runs_with_neighbouring_seeds_differ():
  found = [
    seeds.for_worker(seed, worker, restarts)
    for seed, worker, restarts in itertools.product(range(3), repeat=3)
  ]
  assert len(set(found)) == 27


def test_a_restart_changes_the_seed_of_the_last_worker():
  last = seeds.for_worker(2**31 - 1, 2**20 - 1, restarts=0)
  assert seeds.for_restart(last, 1) not in (last, seeds.for_restart(last, 2))


def test_no_other_part_has_a_workers_seed():
  last = seeds.for_worker(2**31 - 1, 2**20 - 1, restarts=0)
  others = [
    function(seed)
    for seed in (0, 1, 2**31 - 1)
    for function in (
      seeds.for_table,
      seeds.for_evaluating_actor,
      lambda seed: seeds.for_evaluation(seed, 0),
    )
  ]
  assert len(set(others)) == 9
  assert last < min(others)
  assert max(others) < seeds.for_worker(0, 0, restarts=1)
