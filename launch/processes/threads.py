"""Threads: how many a node's process computes with."""


def environment(role: str, learner_threads: int) -> dict[str, str]:
  """The environment variables that say so to the libraries.

  They must stand before TensorFlow and NumPy are imported.

  Args:
    role: of the node.
    learner_threads: config.learner.threads; 0 is the libraries' own choice,
      one a core.
  """
  # Others than the trainer compute small batches: more threads would only
  # fight for its cores.
  threads = learner_threads if role == "trainer" else 1
  if not threads:
    return {}
  names = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
  )
  return dict.fromkeys(names, str(threads))
