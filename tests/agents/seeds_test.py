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
  assert last < 2**63  # the evaluator's seeds begin there
  assert seeds.for_restart(last, 1) not in (last, seeds.for_restart(last, 2))
