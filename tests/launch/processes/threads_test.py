"""Tests of the number of threads per node and per operation."""

import os

import pytest

from slipway.configs import mpo, td3
from slipway.launch.processes import threads

CORES = len(os.sched_getaffinity(0))


def threads_of(role, threads_per_operation, learner_threads=3):
  config = td3.get_config()
  config.learner.threads = learner_threads
  config.learner.threads_per_operation = threads_per_operation
  made = threads.make_role_variables(role, config)
  assert made["OMP_NUM_THREADS"] == made["TF_NUM_INTRAOP_THREADS"]
  return (
    int(made["TF_NUM_INTEROP_THREADS"]),
    int(made["TF_NUM_INTRAOP_THREADS"]),
  )


@pytest.mark.parametrize(("per_operation", "shared"), [(0, 3), (1, 1), (2, 2)])
def test_threads_of_the_trainer_share_operations(per_operation, shared):
  assert threads_of("trainer", per_operation) == (3, shared)


def test_zero_threads_are_one_per_core():
  assert threads_of("trainer", 0, learner_threads=0) == (CORES, CORES)


@pytest.mark.parametrize("role", ["worker", "proxy", "evaluator"])
def test_other_nodes_have_one_thread(role):
  assert threads_of(role, 2) == (1, 1)


@pytest.mark.parametrize(("algorithm", "shared"), [(td3, 1), (mpo, CORES)])
def test_mpo_shares_its_large_products(algorithm, shared):
  made = threads.make_role_variables("trainer", algorithm.get_config())
  assert made["TF_NUM_INTEROP_THREADS"] == str(CORES)
  assert made["TF_NUM_INTRAOP_THREADS"] == str(shared)
