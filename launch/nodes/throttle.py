"""Throttle: limits the rate of a loop's environment steps."""

# Seconds of missed steps that a loop may catch up after a delay. The value
# makes up for a sleep that took too long, but not for a pause.
_BURST_S = 0.1
# Seconds below which a wait counts as 0, because no sleep is that short.
_RESOLUTION_S = 1e-6


class Throttle:
  """A token bucket that limits the rate of environment steps.

  A batch of steps may begin once the earlier steps have taken as long as they
  should at the target rate. So the mean rate holds for any batch size. The
  target rate is an argument of each call, because it may change at any time.

  ```python
  throttle = Throttle()
  while running:
    wait_s = throttle.get_wait_s(command.steps_per_s, time.monotonic())
    if wait_s > 0:
      stop.wait(min(wait_s, 0.05))  # and read the command again
      continue
    steps = step()
    throttle.record_steps(steps, command.steps_per_s, time.monotonic())
  ```
  """

  def __init__(self):
    """Starts without pending steps, so the first batch may begin at once."""
    # Steps by which the loop is ahead of the target rate; negative if behind.
    self._pending_steps = 0.0
    self._updated_at_s: float | None = None

  def get_wait_s(self, steps_per_s: float, now_s: float) -> float:
    """Returns the seconds until the next batch of steps may begin, or 0.0.

    Args:
      steps_per_s: current target rate; 0 means no limit.
      now_s: current monotonic seconds.
    """
    self._update(steps_per_s, now_s)
    if steps_per_s <= 0.0:
      return 0.0
    wait_s = self._pending_steps / steps_per_s
    return wait_s if wait_s > _RESOLUTION_S else 0.0

  def record_steps(self, steps: int, steps_per_s: float, now_s: float) -> None:
    """Records a batch of steps that has just ended.

    Args:
      steps: number of environment steps of the batch.
      steps_per_s: current target rate; 0 means no limit.
      now_s: current monotonic seconds.
    """
    # The steps are added before the update, which then subtracts the steps that
    # were allowed while the batch itself took place.
    self._pending_steps += steps
    self._update(steps_per_s, now_s)

  def _update(self, steps_per_s: float, now_s: float) -> None:
    """Subtracts the steps allowed since the last call from pending ones."""
    if self._updated_at_s is None:
      self._updated_at_s = now_s
    allowed_steps = steps_per_s * (now_s - self._updated_at_s)
    self._pending_steps = (
      max(self._pending_steps - allowed_steps, -_BURST_S * steps_per_s)
      if steps_per_s > 0.0
      else 0.0
    )
    self._updated_at_s = now_s
