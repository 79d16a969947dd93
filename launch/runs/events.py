"""Events: writes a run's metrics and config to TensorBoard's event files."""

import io
import math
import numbers
import os
import pathlib
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import message
from tensorboard.compat.proto import event_pb2, types_pb2
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer import record_writer

from slipway.launch.runs import outbox

_PREFIX = "events.out.tfevents."  # of the names of TensorBoard's event files
# Bytes of a record before its data, its size and a checksum, and after it.
_RECORD_HEAD, _RECORD_TAIL = 12, 4
_MAX_RECORD_BYTES = 1 << 28  # a record that claims more is damaged


class Events:
  """Writes one event file for TensorBoard.

  ```python
  events = Events(folder.events)
  events.add({"learner/loss": 0.5}, step=100)
  ```

  The class does not use TensorFlow, whose import would take seconds.

  Attributes:
    path: path of the event file.
  """

  def __init__(self, folder: pathlib.Path, step: int | None = None):
    """Begins a new event file.

    Args:
      step: environment steps at which the run is resumed, or None for a new
        run. TensorBoard drops values of older files after this step.

    Raises:
      OSError: the file can't be written; see `outbox.append`.
    """
    older = list(folder.glob(f"{_PREFIX}[0-9]*.*"))
    self.path = _next_path(folder, older)
    header = event_pb2.Event()
    header.file_version = "brain.Event:2"
    self._write(header)
    # TensorBoard drops values only at a second start event, so the first file
    # needs one, too.
    if step is not None or not older:
      start = event_pb2.Event()
      # From here on TensorBoard drops older values: not at the snapshot itself,
      # to which an evaluation may belong.
      start.step = 0 if step is None else step + 1
      start.session_log.status = event_pb2.SessionLog.START
      self._write(start)

  def add(self, scalars: Mapping[str, Any], step: int) -> None:
    """Appends the metrics of one step.

    Args:
      scalars: values by name; values that are not numbers are left out.

    Raises:
      OSError: the file can't be written; see `outbox.append`.
    """
    event = event_pb2.Event()
    event.step = step
    for name, value in scalars.items():
      if isinstance(value, numbers.Real):  # None if not known yet
        event.summary.value.add(tag=name, simple_value=value)
    self._write(event)

  def add_gif(self, name: str, content: bytes, step: int) -> None:
    """Appends an animated image, which TensorBoard shows under Images.

    Args:
      content: bytes of the GIF file.
      step: number by which TensorBoard orders the images of a name.

    Raises:
      OSError: the file can't be written; see `outbox.append`.
    """
    event = event_pb2.Event()
    event.step = step
    image = event.summary.value.add(tag=name).image
    # Bytes 6 to 9 of a GIF file are its size.
    image.width, image.height = struct.unpack_from("<HH", content, 6)
    image.encoded_image_string = content
    self._write(event)

  def add_config(self, values: Mapping[str, Any]) -> None:
    """Appends a config, as a text table and as hyperparameters.

    Args:
      values: values of all fields of the config, by name.

    Raises:
      OSError: the file can't be written; see `outbox.append`.
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
    """Appends an event to the file, with the current time."""
    event.wall_time = time.time()
    # The whole record is one append, so that the file has no partial records.
    record = io.BytesIO()
    record_writer.RecordWriter(record).write(event.SerializeToString())
    outbox.append(self.path, record.getvalue())


def read_events(
  path: pathlib.Path, offset: int = 0
) -> Iterator[tuple[Any, int]]:
  """Yields the whole events of a file, and the offset after each, in bytes.

  They end before a record that is damaged or still being written. TensorBoard's
  own reader imports TensorFlow, which takes seconds.
  """
  with path.open("rb") as file:
    file.seek(offset)
    while len(head := file.read(_RECORD_HEAD)) == _RECORD_HEAD:
      (size,) = struct.unpack_from("<Q", head)
      if size > _MAX_RECORD_BYTES:
        return
      content = file.read(size + _RECORD_TAIL)
      if len(content) < size + _RECORD_TAIL:
        return
      try:
        event = event_pb2.Event.FromString(content[:size])
      except message.DecodeError:
        return
      yield event, file.tell()


def read_scalars(folder: pathlib.Path) -> dict[str, list[float]]:
  """Returns the values of each metric, in the order of `Events.add`."""
  found: dict[str, list[float]] = {}
  for path in sorted(folder.glob(f"{_PREFIX}*")):
    for event, _ in read_events(path):
      for value in event.summary.value:
        if value.HasField("simple_value"):
          found.setdefault(value.tag, []).append(value.simple_value)
  return found


def _hyperparameter(value: Any) -> bool | int | float | str:
  """Converts a config value to a type that TensorBoard's HParams supports."""
  # Finite numbers and strings stay as they are; other values become strings.
  is_finite = isinstance(value, int | float) and math.isfinite(value)
  return value if is_finite or isinstance(value, str) else str(value)


def _next_path(
  folder: pathlib.Path, older: Iterable[pathlib.Path]
) -> pathlib.Path:
  """Returns the path of a new event file, sorted after all older files."""
  # TensorBoard reads files in the order of their names, which contain unix
  # seconds. A resume may start within the same second, or on a machine whose
  # clock is behind. The seconds are then set past those of the newest file.
  taken = [int(path.name.removeprefix(_PREFIX).split(".")[0]) for path in older]
  seconds = max([int(time.time()), *(second + 1 for second in taken)])
  return folder / f"{_PREFIX}{seconds:010}.{socket.gethostname()}.{os.getpid()}"
