"""Prometheus: serves the status of a run in Prometheus' text format.

https://prometheus.io/docs/instrumenting/exposition_formats,
https://prometheus.io/docs/practices/naming
"""

import http.server
import math
import numbers
import re
import sys
import threading
import typing
from collections.abc import Iterator, Mapping

import msgspec

from slipway.launch.api import running
from slipway.launch.runs import run_folder, run_status

# The metrics need no password, so no other machine has them.
_HOST = "127.0.0.1"
_TIMEOUT_S = 30.0  # of a client that sends no more of its request
_POLL_S = 0.05  # seconds between two checks whether the server is closed
# Fields that only increase, until a run is resumed from an older snapshot.
_COUNTERS = {
  *run_status.NodeCounts.__struct_fields__,
  *("inserted", "node_restarts", "restarts", "resumes", "sampled"),
  *("trainer_steps", "upload_failures"),
}
# Sections whose fields of the same names are none.
_GAUGES = ("learner", "evaluation")
# Prefix of the names below a section, and the label of its keys, or None. Other
# sections prefix their own name, and their keys are parts of the names.
_SECTIONS = {
  "monitors": ("machine", "machine"),
  "processes": ("process", "process"),
  "gpus": ("gpu", "gpu"),
  "workers": ("worker", "worker"),
  "externals": ("external", "external"),
  "shards": ("shard", "shard"),
  "machines": ("machine", "machine"),
  "nodes": ("nodes", "role"),
  "node_restarts": ("node_restarts", "node"),
  "rates": ("", None),
}
# Sections that are no measurements.
_IGNORED = ("limits", "learning_since")
# Characters that a text in quotes can't have.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Server(http.server.ThreadingHTTPServer):
  """HTTP server of the metrics of one run, which only this machine reaches.

  Each request reads the status as `slipway control status` does.
  """

  daemon_threads = True

  def __init__(self, port: int):
    """Reserves the port, or any if it is 0; `start` begins to reply.

    Raises:
      OSError: the port can't be used.
    """
    self.folder: run_folder.RunFolder | None = None
    try:
      super().__init__((_HOST, port), _Handler)
    except OSError as error:
      raise OSError(
        f"--prometheus_port={port} can't be used ({error.strerror}), so no "
        "metrics could be served: give another port"
      ) from error
    self.url = f"http://{_HOST}:{self.server_port}/metrics"

  def start(self, folder: run_folder.RunFolder) -> None:
    """Serves the metrics of a run until `close`, in a thread."""
    self.folder = folder
    threading.Thread(
      target=self.serve_forever, args=(_POLL_S,), name="metrics", daemon=True
    ).start()

  def handle_error(self, *client: typing.Any) -> None:
    """Prints an error of a reply, but not that a client has left early."""
    if not isinstance(sys.exception(), ConnectionError):
      super().handle_error(*client)

  def close(self) -> None:
    """Ends the thread, and releases the port."""
    if self.folder is not None:
      self.shutdown()
    self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
  """Replies to a request with the metrics, or 503 if the run does not reply."""

  server: Server
  timeout = _TIMEOUT_S

  def do_GET(self) -> None:
    assert self.server.folder is not None
    try:
      with running.connect(self.server.folder) as control:
        content = to_text(control.status()).encode()
    except (running.RunUnavailableError, ValueError) as error:
      self.send_error(503, explain=str(error))
      return
    self.send_response(200)
    self.send_header("Content-Type", "text/plain; version=0.0.4")
    self.end_headers()
    self.wfile.write(content)

  def log_message(self, *_: object) -> None:
    """Logs nothing, since the panel is on the screen."""


def to_text(status: run_status.RunStatus) -> str:
  """Returns all finite numbers of a status, with units in their names.

  Lines are such as `slipway_env_steps_total{run="first"} 25000`, and all lines
  of a name follow its type.
  """
  labels = {"run": status.name}
  info = {**labels, "mode": status.mode, "phase": status.phase}
  samples: dict[str, list[str]] = {"slipway_run_info": [_to_sample(info, 1)]}
  for name, own, value in _find(("slipway",), labels, status):
    samples.setdefault(name, []).append(_to_sample(own, value))
  lines = []
  for name, found in samples.items():
    kind = "counter" if name.endswith("_total") else "gauge"
    lines += [f"# TYPE {name} {kind}", *(name + sample for sample in found)]
  return "\n".join(lines) + "\n"


def _find(
  path: tuple[str, ...], labels: Mapping[str, str], value: typing.Any
) -> Iterator[tuple[str, Mapping[str, str], float]]:
  """Yields name, labels and value of each number in a tree of structures."""
  if isinstance(value, msgspec.Struct):
    value = msgspec.structs.asdict(value)
  if isinstance(value, dict):
    for name, each in value.items():
      if name in _IGNORED or str(name).endswith("_at_s"):
        continue
      if name not in _SECTIONS:
        yield from _find((*path, str(name)), labels, each)
        continue
      # What is in a section within another has no name of the outer one.
      prefix, label = _SECTIONS[name]
      own = (*path[:1], prefix) if prefix else path[:1]
      parts = each.items() if label else [("", each)]
      for key, part in parts:
        added = {label: str(key)} if label else {}
        yield from _find(own, {**labels, **added}, part)
  elif isinstance(value, numbers.Real) and math.isfinite(value):
    yield _make_name(path), labels, float(value)


def _make_name(path: tuple[str, ...]) -> str:
  """Returns a metric's name: seconds in full, and counters as totals."""
  name = re.sub(r"[^a-zA-Z0-9_]", "_", "_".join(path))
  name = re.sub(r"_per_s(?=_|$)", "_per_second", name)
  name = re.sub(r"_s(?=_|$)", "_seconds", name)
  is_counter = path[-1] in _COUNTERS and path[1] not in _GAUGES
  return f"{name}_total" if is_counter else name


def _to_sample(labels: Mapping[str, str], value: float) -> str:
  """Returns labels and value of a metric's line."""
  texts = (f'{key}="{x.translate(_ESCAPES)}"' for key, x in labels.items())
  return f"{{{','.join(texts)}}} {value:.10g}"
