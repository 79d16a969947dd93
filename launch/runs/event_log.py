"""Event log: a log file of process starts, ends and restarts."""

import contextlib
import logging
import pathlib

from slipway.launch.runs import outbox


class EventLog(logging.Logger):
  """A logger that appends lines to one file, each with the current time.

  ```python
  log = EventLog(folder.logs / 'runner')
  log.info('%s is process %d', name, pid)
  ```
  """

  def __init__(self, path: pathlib.Path):
    """Makes a logger without opening the file.

    Args:
      path: path of the file, which is opened for each line.
    """
    super().__init__(path.name)
    handler = _Handler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    self.addHandler(handler)


class _Handler(logging.Handler):
  """A log handler that appends to a file, and retries after a full disk."""

  def __init__(self, path: pathlib.Path):
    """Makes a handler without opening the file at `path`."""
    super().__init__()
    self._path = path

  def emit(self, record: logging.LogRecord) -> None:
    """Appends a record as one line; an error of the file system is ignored."""
    # The run must not fail because its log was removed.
    with contextlib.suppress(OSError):
      outbox.append(self._path, f"{self.format(record)}\n".encode())
