"""Events: writes scalars and a config to a file for TensorBoard."""

import io
import math
import numbers
import os
import pathlib
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from tensorboard.compat.proto import event_pb2, types_pb2
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer import record_writer

from slipway.launch.runs import outbox as outbox_lib

_PREFIX = "events.out.tfevents."


class Events:
  """Writes one event file of a run.

  events = Events(folder.events, outbox)
  events.add({"learner/loss": 0.5}, step=100)

  It does not use TensorFlow, whose import would take seconds.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    outbox: outbox_lib.Outbox,
    step: int | None = None,
  ):
    """Begins a new file in `folder`.

    Args:
      folder: log directory of TensorBoard.
      outbox: the outbox that writes the file.
      step: step at which the run is resumed, or None for a new run. TensorBoard
        drops later values of older files.

    Raises:
      OSError: a file could not be written; the message names it.
    """
    older = list(folder.glob(f"{_PREFIX}[0-9]*.*"))
    self.path = _next_path(folder, older)
    self._outbox = outbox
    header = event_pb2.Event()
    header.file_version = "brain.Event:2"
    self._write(header)
    # TensorBoard drops values only at a second start event, so the first file
    # needs one, too.
    if step is not None or not older:
      start = event_pb2.Event()
      start.step = step or 0
      start.session_log.status = event_pb2.SessionLog.START
      self._write(start)

  def add(self, scalars: Mapping[str, Any], step: int) -> None:
    """Appends scalars of a step; values that are not numbers are left out.

    Raises:
      OSError: a file could not be written; the message names it.
    """
    event = event_pb2.Event()
    event.step = step
    for name, value in scalars.items():
      if isinstance(value, numbers.Real):  # None if not known yet
        event.summary.value.add(tag=name, simple_value=value)
    self._write(event)

  def add_config(self, values: Mapping[str, Any]) -> None:
    """Appends a config as a text table and as hyperparameters.

    Args:
      values: values of all fields, by name.

    Raises:
      OSError: a file could not be written; the message names it.
    """
    rows = [f"| {name} | `{value!r}` |" for name, value in values.items()]
    table = "\n".join(["| field | value |", "|---|---|", *rows])
    event = event_pb2.Event()
    text = event.summary.value.add(
      tag="config",
      metadata=text_metadata.create_summary_metadata("config", ""),
    )
    text.tensor.dtype = types_pb2.DT_STRING
    text.tensor.string_val.append(table.encode())
    self._write(event)
    event = event_pb2.Event()
    event.summary.CopyFrom(
      hparams.hparams_pb({k: _hyperparameter(v) for k, v in values.items()})
    )
    self._write(event)

  def _write(self, event: Any) -> None:
    """Appends an event, with the current time, to the file."""
    event.wall_time = time.time()
    # The whole record is one append, so that the file has no partial records.
    record = io.BytesIO()
    record_writer.RecordWriter(record).write(event.SerializeToString())
    self._outbox.append(self.path, record.getvalue())


def _hyperparameter(value: Any) -> bool | int | float | str:
  """Converts a config value to a type that TensorBoard's plugin supports."""
  is_finite = isinstance(value, int | float) and math.isfinite(value)
  return value if is_finite or isinstance(value, str) else str(value)


def _next_path(
  folder: pathlib.Path, older: Iterable[pathlib.Path]
) -> pathlib.Path:
  """Returns a path whose name sorts after those of all older files.

  TensorBoard reads files in the order of their names, which begin with unix
  seconds. A resume may start within the same second, or on a machine whose
  clock is behind.
  """
  taken = [int(path.name.removeprefix(_PREFIX).split(".")[0]) for path in older]
  seconds = max([int(time.time()), *(second + 1 for second in taken)])
  return folder / f"{_PREFIX}{seconds:010}.{socket.gethostname()}.{os.getpid()}"
