"""Event log: a log file of process starts, ends and restarts."""

import contextlib
import logging
import pathlib

from slipway.launch.runs import outbox


class Handler(logging.Handler):
  """A log handler that appends lines, each with the time, to one file.

  A full disk only delays them.
  """

  def __init__(self, path: pathlib.Path):
    """Makes a handler without opening the file at `path`."""
    super().__init__()
    self._path = path
    self.setFormatter(logging.Formatter("%(asctime)s %(message)s"))

  def emit(self, record: logging.LogRecord) -> None:
    """Appends a record as one line; an error of the file system is ignored."""
    # The run must not fail because its log was removed.
    with contextlib.suppress(OSError):
      outbox.append(self._path, f"{self.format(record)}\n".encode())
