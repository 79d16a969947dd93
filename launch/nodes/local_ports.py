"""Local ports: the ports of worker and trainer that share one process."""

import time
from collections.abc import Mapping

import numpy as np

from slipway.replay.items import adder as adder_lib
from slipway.replay.items import frames as frames_lib
from slipway.replay.tables import local_queue, local_table
from slipway.replay.variables import variable_packing


class LocalSink:
  """A `ports.ItemSink` that inserts directly into a table of this process.

  An item is in the table as soon as `write` returns, so none is ever in flight,
  lost or discarded.
  """

  lost, discarded, streams, waits_for = 0, 0, 1, ""

  def __init__(self, table: local_table.LocalTable | local_queue.LocalQueue):
    """Makes a sink that inserts items into `table`."""
    self._table = table
    self.written = 0

  @property
  def confirmed(self) -> int:
    """Number of items that were written, as all of them are in the table."""
    return self.written

  def wait(self, timeout_s: float) -> bool:
    """Returns True at once, because the table accepts items at any time."""
    del timeout_s
    return True

  def write(
    self,
    records: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> None:
    """Inserts N items into the table."""
    items = adder_lib.Items(records, priorities, frames)
    self._table.insert(items.data(), priorities)
    self.written += len(records)

  def flush(self, timeout_s: float) -> bool:
    """Returns True, because no item is ever in flight."""
    del timeout_s
    return True

  def close(self, timeout_s: float) -> bool:
    """Returns True, because no item is ever in flight."""
    del timeout_s
    return True


class LocalVariables:
  """A `ports.VariablesSink` that holds the newest variables in this process.

  Attributes:
    newest: the newest published variables, or None before the first.
  """

  def __init__(self, newest: variable_packing.VersionedVariables | None = None):
    """Stores the first variables, if any.

    Args:
      newest: the variables of a resumed run, or None in a new run.
    """
    self.newest = newest

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Publishes variables as the next version; returns the version's number.

    Args:
      variables: arrays by name. The arrays are not copied.
    """
    version = self.newest.version + 1 if self.newest is not None else 1
    self.newest = variable_packing.VersionedVariables(
      version, time.time(), dict(variables)
    )
    return version

  def close(self) -> None:
    """Does nothing, because there is no connection to close."""

  def make_source(self) -> "LocalSource":
    """Returns a new source, by which one reader polls the variables."""
    return LocalSource(self)


class LocalSource:
  """A `ports.VariablesSource` that reads a `LocalVariables` of this process.

  It returns each version only once, so each reader needs its own source.
  """

  def __init__(self, variables: LocalVariables):
    """Makes a source that reads from `variables`."""
    self._variables, self._version = variables, 0

  def poll(self) -> variable_packing.VersionedVariables | None:
    """Returns the newest variables, or None if they were returned before."""
    newest = self._variables.newest
    if newest is None or newest.version == self._version:
      return None
    self._version = newest.version
    return newest
