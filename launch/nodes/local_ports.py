"""Local ports: a run's data plane as objects of one process."""

import time
from collections.abc import Mapping

import numpy as np

from slipway.replay.items import adder as adder_lib
from slipway.replay.items import frames as frames_lib
from slipway.replay.tables import local_queue, local_table
from slipway.replay.variables import variable_packing


class LocalSink:
  """Writes a worker's items into a table of this process.

  Implements `ports.ItemSink`: nothing is ever in flight, or lost.
  """

  lost, discarded, streams, waits_for = 0, 0, 1, ""

  def __init__(self, table: local_table.LocalTable | local_queue.LocalQueue):
    """Writes to `table`."""
    self._table = table
    self.written = 0

  @property
  def confirmed(self) -> int:
    """All items that were written."""
    return self.written

  def wait(self, timeout_s: float) -> bool:
    """Returns True: the table takes items at any time."""
    del timeout_s
    return True

  def write(
    self,
    records: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> None:
    """Inserts items."""
    items = adder_lib.Items(records, priorities, frames)
    self._table.insert(items.data(), priorities)
    self.written += len(records)

  def flush(self, timeout_s: float) -> bool:
    """Returns True: nothing is in flight."""
    del timeout_s
    return True

  def close(self, timeout_s: float) -> bool:
    """Returns True: nothing was in flight."""
    del timeout_s
    return True


class LocalVariables:
  """The newest variables of this process: a sink, and a source of each reader.

  Implements `ports.VariablesSink`.

  Attributes:
    newest: version that was published last; None: none was.
  """

  pending = False

  def __init__(self, newest: variable_packing.VersionedVariables | None = None):
    """Starts with the version of a run that is resumed, if there is one."""
    self.newest = newest

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Makes the variables the newest version; returns it."""
    version = self.newest.version + 1 if self.newest is not None else 1
    self.newest = variable_packing.VersionedVariables(
      version, time.time(), dict(variables)
    )
    return version

  def close(self) -> None:
    """Does nothing."""

  def make_source(self) -> "LocalSource":
    """Makes the source of one reader."""
    return LocalSource(self)


class LocalSource:
  """Gives one reader each version once; implements `ports.VariablesSource`."""

  def __init__(self, variables: LocalVariables):
    """Reads from `variables`."""
    self._variables, self._version = variables, 0

  def poll(self) -> variable_packing.VersionedVariables | None:
    """Returns the newest version; None: it was returned before."""
    newest = self._variables.newest
    if newest is None or newest.version == self._version:
      return None
    self._version = newest.version
    return newest
