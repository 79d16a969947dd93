"""Processors: the threads and the GPU that each process of a run may use.

Libraries read both from environment variables.
"""

import contextlib
import glob
import importlib.metadata
import os
import typing
from collections.abc import Iterator

if typing.TYPE_CHECKING:  # The start of the fork server waits for this module.
  import ml_collections

# Environment variable with the indices or names of the GPUs that CUDA shows to
# a process, separated by commas.
_VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
# Environment variables of a process that must not use a GPU.
NO_GPU = {_VISIBLE_GPUS: "-1"}


def make_role_variables(
  role: str, config: "ml_collections.ConfigDict"
) -> dict[str, str]:
  """Returns the environment variables of a node of a run.

  Args:
    role: role of the node; all roles but 'trainer' get one thread and no GPU.
  """
  # Nodes other than the trainer compute small batches, so further threads would
  # only take cores from the trainer, and a GPU would only lose memory.
  if role != "trainer":
    return {**make_thread_variables(1), **NO_GPU}
  learner = config.learner
  return {
    **make_thread_variables(learner.threads, learner.threads_per_operation),
    **make_gpu_variables(learner.device),
  }


def make_thread_variables(
  threads: int, per_operation: int = 0
) -> dict[str, str]:
  """Returns environment variables that set the number of threads of libraries.

  They must be set before TensorFlow and NumPy are imported.

  Args:
    threads: number of threads of the process; 0 selects one per core.
    per_operation: number of them that share one operation; 0 selects all.
  """
  # A number is always set, because a forked process would otherwise inherit the
  # fork server's value.
  threads = threads or len(os.sched_getaffinity(0))
  return {
    "TF_NUM_INTEROP_THREADS": str(threads),
    **dict.fromkeys(
      ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"),
      str(per_operation or threads),
    ),
  }


def make_gpu_variables(device: str) -> dict[str, str]:
  """Returns environment variables that show one GPU, or none, to a process.

  They must be set before the first operation of TensorFlow.

  Args:
    device: value of `config.learner.device`: 'auto', 'cpu' or 'gpu:N'. N counts
      the GPUs that this process sees; 'auto' is the first of them, if any.
  """
  if device == "cpu":
    return NO_GPU
  gpus, index = _visible_gpus(), gpu_index(device)
  return {
    _VISIBLE_GPUS: gpus[index] if index < len(gpus) else NO_GPU[_VISIBLE_GPUS],
    # TensorFlow would otherwise take all of the GPU's memory at once.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
  }


@contextlib.contextmanager
def shown_gpu(device: str) -> Iterator[None]:
  """Shows one GPU, or none, to what a `with` block calls.

  TensorFlow then keeps to that in this process. The argument is that of
  `make_gpu_variables`.
  """
  shown = make_gpu_variables(device)
  before = {name: os.environ[name] for name in shown if name in os.environ}
  os.environ.update(shown)
  try:
    yield
  finally:
    for name in shown:
      os.environ.pop(name, None)
    os.environ.update(before)


def check_device(device: str) -> None:
  """Checks that this machine has the device of `config.learner.device`.

  Args:
    device: 'auto', 'cpu' or 'gpu:N'.

  Raises:
    ValueError: a GPU is wanted that TensorFlow can't use, or that is not there.
  """
  if not device.startswith("gpu"):
    return
  problem = ""
  if not _has_package("tensorflow") and _has_package("tensorflow-cpu"):
    problem = (
      "the installed TensorFlow computes on CPUs only: `make setup GPU=1` "
      "installs the one for GPUs"
    )
  elif gpu_index(device) >= len(gpus := _visible_gpus()):
    problem = (
      f"this process sees {len(gpus)} GPUs (/dev/nvidia*, {_VISIBLE_GPUS}): "
      "give the index of one of them, from 0"
    )
  if problem:
    raise ValueError(
      f"config.learner.device={device} can't be used, since {problem}, or use "
      "learner.device=auto, which uses a GPU if there is one"
    )


def gpu_index(device: str) -> int:
  """Returns the index of the GPU that 'auto' or 'gpu:N' selects."""
  return 0 if device == "auto" else int(device.removeprefix("gpu:"))


def _visible_gpus() -> list[str]:
  """Returns the indices or names of the GPUs that CUDA shows to us."""
  given = os.environ.get(_VISIBLE_GPUS)
  if given is None:
    # Under WSL, /dev/dxg stands for all GPUs; mostly there is one.
    devices = glob.glob("/dev/nvidia[0-9]*") or glob.glob("/dev/dxg")
    return [str(index) for index in range(len(devices))]
  names = [name.strip() for name in given.split(",")]
  # CUDA ignores all from the first invalid entry on.
  end = next((i for i, x in enumerate(names) if x in ("", "-1")), len(names))
  return names[:end]


def _has_package(name: str) -> bool:
  """Returns whether a distribution package is installed."""
  try:
    importlib.metadata.distribution(name)
  except importlib.metadata.PackageNotFoundError:
    return False
  return True
