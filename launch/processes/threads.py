"""Threads: how many a node's process computes with."""

import os


def environment(role: str, learner_threads: int) -> dict[str, str]:
  """The environment variables that say so to the libraries.

  They must stand before TensorFlow and NumPy are imported.

  Args:
    role: of the node.
    learner_threads: config.learner.threads; 0: one a core.
  """
  # Others than the trainer compute small batches: more threads would only
  # fight for its cores.
  threads = learner_threads if role == "trainer" else 1
  # Said in any case: a fork would go on with what its server was told.
  threads = threads or len(os.sched_getaffinity(0))
  names = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
  )
  return dict.fromkeys(names, str(threads))
