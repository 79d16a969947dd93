"""Metrics server: serves the status of a run to Prometheus over HTTP."""

import http.server
import threading

from slipway.configs import typed_config
from slipway.launch.api import running
from slipway.launch.display import prometheus
from slipway.launch.runs import run_folder

_LOOPBACK = "127.0.0.1"  # the default host, which only this machine reaches
_POLL_S = 0.05  # seconds between two checks whether the server is closed


class MetricsServer(http.server.ThreadingHTTPServer):
  """HTTP server of the metrics of one run, at /metrics.

  Each request reads the status as `slipway control status` does, so the run
  pays for nothing but the requests.

  Attributes:
    folder: the run's folder.
  """

  daemon_threads = True

  def __init__(self, address: str):
    """Reserves the port; the server replies from `start` on.

    Args:
      address: 'PORT', or 'HOST:PORT' of a network interface of this machine.

    Raises:
      ValueError: the address is none.
      OSError: the port can't be used.
    """
    host, _, port = address.rpartition(":")
    flag = f"--prometheus={address}"
    try:
      number = typed_config.parse_int(port)
    except (ValueError, OverflowError):
      number = -1
    if not 0 <= number < 2**16:
      raise ValueError(
        f"{flag} is no port, so no metrics could be served: give "
        "--prometheus=PORT, such as 9400, or HOST:PORT"
      )
    self.folder: run_folder.RunFolder | None = None
    try:
      super().__init__((host or _LOOPBACK, number), _Handler)
    except OSError as error:
      raise OSError(
        f"{flag} can't be used ({error.strerror or error}), so no metrics "
        "could be served: give another port"
      ) from error

  @property
  def url(self) -> str:
    """The address of the metrics."""
    host, port = self.server_address[:2]
    return f"http://{host}:{port}/metrics"

  def start(self, folder: run_folder.RunFolder) -> None:
    """Serves the metrics of a run until `close`, in a thread."""
    self.folder = folder
    threading.Thread(
      target=self.serve_forever, args=(_POLL_S,), name="metrics", daemon=True
    ).start()

  def close(self) -> None:
    """Ends the thread, and releases the port."""
    if self.folder is not None:
      self.shutdown()
    self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
  """Replies to one connection."""

  server: MetricsServer

  def do_GET(self) -> None:
    """Sends the metrics, or 503 while the run does not reply."""
    if self.path not in ("/metrics", "/"):
      self.send_error(404, "the metrics are at /metrics")
      return
    assert self.server.folder is not None
    try:
      with running.connect(self.server.folder) as control:
        text = prometheus.to_text(control.status())
    except (running.RunUnavailableError, ValueError) as error:
      self.send_error(503, "the run does not reply", str(error))
      return
    content = text.encode()
    self.send_response(200)
    self.send_header("Content-Type", prometheus.CONTENT_TYPE)
    self.send_header("Content-Length", str(len(content)))
    self.end_headers()
    self.wfile.write(content)

  def log_message(self, format: str, *args: object) -> None:
    """Logs nothing, since the panel is on the screen."""
