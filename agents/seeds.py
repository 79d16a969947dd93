"""Seeds: a process that takes another's place draws other numbers."""


def of_life(seed: int, lives: int) -> int:
  """The seed of one of the processes that fill a place in a run in turn.

  A restarted worker that drew its predecessor's numbers again would repeat
  its episodes, which are in the table already.

  Args:
    seed: of the place, at least 0 and below 2^64.
    lives: processes that have filled it before.

  Returns:
    `seed` for the first life, and numbers that no place has for the others;
    NumPy's generators take integers of any size.
  """
  return seed + (lives << 64)
