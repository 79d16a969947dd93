"""MeasuredRates: the growth of a run's counts per second."""

from slipway.launch.control import rate
from slipway.launch.runs import run_counters, run_status


class MeasuredRates:
  """Measures the rates of a run's counts, averaged over the last seconds.

  Attributes:
    status: the status's section about rates, as of the last `update`.
    proxy_bytes_per_s: bytes per second that proxies relay to the servers.
    variable_loads_per_s: versions of the variables that all workers load per
      second.
  """

  def __init__(self):
    """Starts with all rates at 0."""
    self.clear()

  def clear(self) -> None:
    """Sets all rates to 0, and discards the samples of earlier counts."""
    self._env_steps = rate.Rate()
    self._trainer_steps = rate.Rate()
    self._items = rate.Rate()
    self._episodes = rate.Rate()
    self._proxy_bytes = rate.Rate()
    self._variable_loads = rate.Rate()
    self.status = run_status.RatesStatus()
    self.proxy_bytes_per_s = self.variable_loads_per_s = 0.0

  def update(
    self,
    collected: run_counters.NodeCounts,
    relayed: run_counters.NodeCounts,
    trainer_steps: int,
    now_s: float,
  ) -> None:
    """Computes all rates from the current counts; must be called regularly.

    Args:
      collected: sums over all workers and external processes.
      relayed: sums over all proxies.
      trainer_steps: the run's trainer steps.
      now_s: current monotonic seconds.
    """
    self.status = run_status.RatesStatus(
      env_steps_per_s=self._env_steps.add(collected.env_steps, now_s),
      trainer_steps_per_s=self._trainer_steps.add(trainer_steps, now_s),
      items_per_s=self._items.add(collected.items_confirmed, now_s),
      episodes_per_s=self._episodes.add(collected.episodes, now_s),
    )
    self.proxy_bytes_per_s = self._proxy_bytes.add(relayed.bytes_up, now_s)
    self.variable_loads_per_s = self._variable_loads.add(
      collected.variable_loads, now_s
    )
