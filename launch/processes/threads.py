"""Threads: sets the number of threads of TensorFlow, OpenMP and OpenBLAS."""

import os


def make_environment_variables(
  role: str, learner_threads: int
) -> dict[str, str]:
  """Returns environment variables that set the number of threads of libraries.

  They must be set before TensorFlow and NumPy are imported.

  Args:
    role: role of the process's node; all roles but 'trainer' get one thread.
    learner_threads: number of threads of the trainer, from
      config.learner.threads; 0 selects one per core.
  """
  # Nodes other than the trainer compute small batches, so further threads would
  # only take cores from the trainer.
  threads = learner_threads if role == "trainer" else 1
  # A number is always set, because a forked process would otherwise inherit the
  # fork server's value.
  threads = threads or len(os.sched_getaffinity(0))
  names = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
  )
  return dict.fromkeys(names, str(threads))
