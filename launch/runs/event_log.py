"""Event log: a file with the events of a runner or a cluster supervisor."""

import contextlib
import logging
import pathlib

from slipway.launch.runs import outbox


class EventLog(logging.Logger):
  """A logger that appends lines with the time to one file.

  ```python
  log = EventLog(folder.logs / 'runner')
  log.info('%s is process %d', name, pid)
  ```
  """

  def __init__(self, path: pathlib.Path):
    """Makes a logger for a file, which is opened for each line."""
    super().__init__(path.name)
    handler = _Handler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    self.addHandler(handler)


class _Handler(logging.Handler):
  """A log handler that appends to a file; a full disk delays the lines."""

  def __init__(self, path: pathlib.Path):
    super().__init__()
    self._path, self._outbox = path, outbox.Outbox()

  def emit(self, record: logging.LogRecord) -> None:
    # The run must not fail because its log was removed.
    with contextlib.suppress(OSError):
      self._outbox.append(self._path, f"{self.format(record)}\n".encode())
