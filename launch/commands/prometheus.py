"""Prometheus: serves the numbers of a run's status to Prometheus."""

import re
from collections.abc import Iterable

import prometheus_client
from prometheus_client import core, registry

from slipway.launch.api import running
from slipway.launch.runs import run_folder


class Server(registry.Collector):
  """HTTP server of the metrics of one run, which only this machine reaches.

  Attributes:
    folder: folder of the run, or None until it is known.
    url: address of the metrics.
  """

  def __init__(self, port: int):
    """Starts to serve at a port, or at any if it is 0.

    Raises:
      OSError: the port can't be used.
    """
    self.folder: run_folder.RunFolder | None = None
    metrics = registry.CollectorRegistry()
    metrics.register(self)
    try:
      # The metrics need no password, so no other machine has them.
      self._server, _ = prometheus_client.start_http_server(
        port, "127.0.0.1", metrics
      )
    except OSError as error:
      raise OSError(
        f"--prometheus_port={port} can't be used ({error.strerror}), so no "
        "metrics could be served: give another port"
      ) from error
    self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"

  def close(self) -> None:
    """Ends the server, and releases the port."""
    self._server.shutdown()
    self._server.server_close()

  def collect(self) -> Iterable[core.Metric]:
    """Returns the numbers of the run's status, or nothing without a reply.

    TensorBoard's 'evaluation/mean_return' is `slipway_mean_return` with the
    label `section="evaluation"`.
    """
    if self.folder is None:
      return []
    try:
      with running.connect(self.folder) as control:
        status = control.status()
    except (running.RunUnavailableError, ValueError):
      return []
    found: dict[str, core.GaugeMetricFamily] = {}
    for path, value in status.to_numbers().items():
      section, _, field = path.rpartition("/")
      name = "slipway_" + re.sub(r"\W", "_", field)
      if name not in found:
        found[name] = core.GaugeMetricFamily(
          name, field, labels=["run", "section"]
        )
      found[name].add_metric([status.name, section], value)
    return found.values()
