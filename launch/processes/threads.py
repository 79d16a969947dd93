"""Threads: sets how many threads the libraries of a process use."""

import os


def make_environment_variables(
  role: str, learner_threads: int
) -> dict[str, str]:
  """Returns environment variables that set the number of threads.

  They must be set before TensorFlow and NumPy are imported.

  Args:
    role: the node's role.
    learner_threads: value of config.learner.threads, the threads of the
      trainer; 0 selects one per core.
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
