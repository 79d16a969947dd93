"""Collected: what one worker process, of any library, has collected."""

import typing


class Collected(typing.NamedTuple):
  """Measurements of one worker process over some environment steps.

  Attributes:
    env_steps: environment steps of the measurement.
    items_per_step: items that the server took, per environment step.
    wall_s: duration in seconds.
    worker_cpu_s: CPU seconds of the worker process.
    server_cpu_s: CPU seconds of the server process.
  """

  env_steps: int
  items_per_step: float  # that the server took, of all steps
  wall_s: float
  worker_cpu_s: float
  server_cpu_s: float

  def row(self) -> dict[str, float]:
    """Returns the measurements and rates, by column of the CSV file."""
    return {
      **self._asdict(),
      "steps_per_cpu_s": self.env_steps / self.worker_cpu_s,
      "steps_per_wall_s": self.env_steps / self.wall_s,
      "server_cpu_us_per_step": 1e6 * self.server_cpu_s / self.env_steps,
    }


def count_inserted(address: str) -> int:
  """Returns the number of items inserted into a Reverb server's only table."""
  import reverb

  (table,) = reverb.Client(address).server_info(timeout=10).values()
  return table.rate_limiter_info.insert_stats.completed
