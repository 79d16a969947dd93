"""Seeds of restarted processes, which need new random numbers."""


def for_restart(seed: int, restarts: int) -> int:
  """Returns the seed for a node's process, which differs after each restart.

  With an unchanged seed, a restarted worker would repeat episodes that the
  table already contains.

  Args:
    seed: seed of the node, at least 0 and below 2^64.
    restarts: number of restarts of the node so far.

  Returns:
    seed + restarts * 2^64, a number that no other node uses. NumPy's generators
    accept integers of any size.
  """
  return seed + (restarts << 64)
