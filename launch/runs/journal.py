"""Journal: what a run's keepers did, a line each with its time, in a file."""

import logging
import pathlib


class Journal(logging.Logger):
  """Writes to one file of the run's logs.

  ```python
  journal = Journal(folder.logs / 'runner')
  journal.info('%s is process %d', name, pid)
  journal.close()
  ```
  """

  def __init__(self, path: pathlib.Path):
    """Opens the file, after what it has."""
    super().__init__(path.name)
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    self.addHandler(handler)

  def close(self) -> None:
    """Closes the file."""
    for handler in self.handlers:
      handler.close()
