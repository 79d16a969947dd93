"""Seeds: a restarted process uses other random numbers."""


def for_restart(seed: int, restarts: int) -> int:
  """Returns the seed of one of the processes that are a node, one by one.

  A restarted worker that used its predecessor's random numbers again would
  repeat its episodes, which are in the table already.

  Args:
    seed: of the node, at least 0 and below 2^64.
    restarts: processes that were the node before.

  Returns:
    `seed` for the first process, and numbers that no other node has for the
    others; NumPy's generators take integers of any size.
  """
  return seed + (restarts << 64)
