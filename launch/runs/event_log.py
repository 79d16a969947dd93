"""Event log: a file of what a run's supervisors did, with the times."""

import contextlib
import logging
import pathlib

from slipway.launch.runs import outbox


class EventLog(logging.Logger):
  """Writes to one file of the run's logs.

  ```python
  log = EventLog(folder.logs / 'runner')
  log.info('%s is process %d', name, pid)
  ```
  """

  def __init__(self, path: pathlib.Path):
    """Names the file, to which lines are appended."""
    super().__init__(path.name)
    handler = _Handler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    self.addHandler(handler)


class _Handler(logging.Handler):
  """Appends to a file; a full disk delays that."""

  def __init__(self, path: pathlib.Path):
    super().__init__()
    self._path, self._outbox = path, outbox.Outbox()

  def emit(self, record: logging.LogRecord) -> None:
    # A log that was removed ends no run.
    with contextlib.suppress(OSError):
      self._outbox.append(self._path, f"{self.format(record)}\n".encode())
