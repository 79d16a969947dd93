"""Tests of the threads and the GPU of each node."""

import os

import pytest

from slipway.configs import mpo, td3
from slipway.launch.processes import processors

CORES = len(os.sched_getaffinity(0))


def threads_of(role, threads_per_operation, learner_threads=3):
  config = td3.get_config()
  config.learner.threads = learner_threads
  config.learner.threads_per_operation = threads_per_operation
  made = processors.make_role_variables(role, config)
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
  made = processors.make_role_variables("trainer", algorithm.get_config())
  assert made["TF_NUM_INTEROP_THREADS"] == str(CORES)
  assert made["TF_NUM_INTRAOP_THREADS"] == str(shared)


# GPUs are named by the environment variable, since this machine may have none.
@pytest.mark.parametrize(
  ("visible", "device", "expected"),
  [
    ("0,1", "auto", "0"),
    ("2,5", "auto", "2"),
    ("2,5", "gpu:1", "5"),
    ("GPU-7d1a, GPU-90cc", "gpu:1", "GPU-90cc"),
    ("2,5", "cpu", "-1"),
    ("", "auto", "-1"),
    ("-1", "auto", "-1"),
    ("3,-1,4", "gpu:1", "-1"),  # CUDA ignores what follows -1
  ],
)
def test_the_trainer_alone_sees_one_gpu(monkeypatch, visible, device, expected):
  monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
  config = td3.get_config()
  config.learner.device = device
  made = processors.make_role_variables("trainer", config)
  assert made["CUDA_VISIBLE_DEVICES"] == expected
  for role in ("worker", "proxy", "evaluator", "control", "replay"):
    others = processors.make_role_variables(role, config)
    assert others["CUDA_VISIBLE_DEVICES"] == "-1"


def test_memory_of_the_gpu_is_taken_on_demand(monkeypatch):
  monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
  made = processors.make_gpu_variables("auto")
  assert made["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


def _fake_packages(monkeypatch, name):
  """Makes `name` the only installed distribution of TensorFlow."""

  def distribution(wanted):
    if wanted != name:
      raise processors.importlib.metadata.PackageNotFoundError(wanted)

  monkeypatch.setattr(
    processors.importlib.metadata, "distribution", distribution
  )


@pytest.mark.parametrize(
  ("visible", "device", "package", "error"),
  [
    ("0", "gpu:0", "tensorflow", None),
    ("0,1", "gpu:1", "tensorflow", None),
    ("", "auto", "tensorflow-cpu", None),
    ("", "cpu", "tensorflow-cpu", None),
    ("0", "gpu:0", "tensorflow-cpu", "make setup GPU=1"),
    ("0", "gpu:1", "tensorflow", "sees 1 GPUs"),
    ("", "gpu:0", "tensorflow", "sees 0 GPUs"),
  ],
)
def test_a_missing_gpu_is_rejected(
  monkeypatch, visible, device, package, error
):
  monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
  _fake_packages(monkeypatch, package)
  if error is None:
    processors.check_device(device)
    return
  with pytest.raises(ValueError, match=error) as caught:
    processors.check_device(device)
  assert str(caught.value).startswith(f"config.learner.device={device} ")
  assert "\n" not in str(caught.value)
