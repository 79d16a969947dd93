"""Threads: sets the number of threads of TensorFlow, OpenMP and OpenBLAS."""

import os

import ml_collections


def make_role_variables(
  role: str, config: ml_collections.ConfigDict
) -> dict[str, str]:
  """Returns `make_environment_variables` for a role and a whole config."""
  learner = config.learner
  return make_environment_variables(
    role, learner.threads, learner.threads_per_operation
  )


def make_environment_variables(
  role: str, learner_threads: int, per_operation: int = 0
) -> dict[str, str]:
  """Returns environment variables that set the number of threads of libraries.

  They must be set before TensorFlow and NumPy are imported.

  Args:
    role: role of the process's node; all roles but 'trainer' get one thread.
    learner_threads: number of threads of the trainer, from
      config.learner.threads; 0 selects one per core.
    per_operation: number of them that share one operation of the trainer, from
      config.learner.threads_per_operation; 0 selects all of them.
  """
  # Nodes other than the trainer compute small batches, so further threads would
  # only take cores from the trainer.
  threads = learner_threads if role == "trainer" else 1
  # A number is always set, because a forked process would otherwise inherit the
  # fork server's value.
  threads = threads or len(os.sched_getaffinity(0))
  shared = per_operation if role == "trainer" else 0
  return {
    "TF_NUM_INTEROP_THREADS": str(threads),
    **dict.fromkeys(
      ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"),
      str(shared or threads),
    ),
  }
