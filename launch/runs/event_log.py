"""Event log: a file of what a run's supervisors did, with the times."""

import logging
import pathlib


class EventLog(logging.Logger):
  """Writes to one file of the run's logs.

  ```python
  log = EventLog(folder.logs / 'runner')
  log.info('%s is process %d', name, pid)
  log.close()
  ```
  """

  def __init__(self, path: pathlib.Path):
    """Opens the file, to append to it."""
    super().__init__(path.name)
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    self.addHandler(handler)

  def close(self) -> None:
    """Closes the file."""
    for handler in self.handlers:
      handler.close()
