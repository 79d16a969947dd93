"""Pace: holds a loop to a number of environment steps a second."""

# As much as this may be caught up after a hold-up, such as a pause or a slow
# step. Enough to forgive a sleep that was too long, too little for a burst.
_BURST_S = 0.1
# Waits below what any clock resolves would only turn the loop once more.
_RESOLUTION_S = 1e-6


class Pace:
  """A bucket of steps that fills at the asked rate.

  A batch of steps may be made as soon as the one before is paid for, so the
  rate is kept on average whatever the batch's size. It is given with each
  call, and a change of it acts on what is still owed.

  ```python
  pace = Pace()
  while running:
    wait_s = pace.wait_s(command.steps_per_s, time.monotonic())
    if wait_s > 0:
      stop.wait(min(wait_s, 0.05))  # and read the command again
      continue
    steps = step()
    pace.stepped(steps, command.steps_per_s, time.monotonic())
  ```
  """

  def __init__(self):
    """Starts with nothing owed: the first batch may be made at once."""
    self._owed_steps = 0.0  # below 0: may be made in a row
    self._settled_at_s: float | None = None

  def wait_s(self, steps_per_s: float, now_s: float) -> float:
    """Seconds until the next batch of steps may be made; 0.0: now.

    Args:
      steps_per_s: the rate asked for now; 0: no limit.
      now_s: monotonic seconds.
    """
    self._settle(steps_per_s, now_s)
    if steps_per_s <= 0.0:
      return 0.0
    wait_s = self._owed_steps / steps_per_s
    return wait_s if wait_s > _RESOLUTION_S else 0.0

  def stepped(self, steps: int, steps_per_s: float, now_s: float) -> None:
    """Takes that a batch was made.

    Args:
      steps: environment steps of the batch.
      steps_per_s: the rate asked for now; 0: no limit, and nothing is owed.
      now_s: monotonic seconds.
    """
    # Owed before it is paid off: the time that the batch took counts for it.
    self._owed_steps += steps
    self._settle(steps_per_s, now_s)

  def _settle(self, steps_per_s: float, now_s: float) -> None:
    """Pays off what is owed, by the time that has passed."""
    if self._settled_at_s is None:
      self._settled_at_s = now_s
    paid_steps = steps_per_s * (now_s - self._settled_at_s)
    self._owed_steps = (
      max(self._owed_steps - paid_steps, -_BURST_S * steps_per_s)
      if steps_per_s > 0.0
      else 0.0
    )
    self._settled_at_s = now_s
