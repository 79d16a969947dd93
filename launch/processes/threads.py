"""Threads: sets the number of threads of TensorFlow, OpenMP and OpenBLAS."""

import os

import ml_collections


def make_role_variables(
  role: str, config: ml_collections.ConfigDict
) -> dict[str, str]:
  """Returns `make_environment_variables` for a node of a run.

  Args:
    role: role of the node; all roles but 'trainer' get one thread.
    config: the whole config.
  """
  # Nodes other than the trainer compute small batches, so further threads would
  # only take cores from the trainer.
  if role != "trainer":
    return make_environment_variables(1)
  learner = config.learner
  return make_environment_variables(
    learner.threads, learner.threads_per_operation
  )


def make_environment_variables(
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
