"""Ports: protocols of the data connections of worker, trainer and evaluator.

Worker, trainer and evaluator are the same classes in every mode. In distributed
modes, clients of the replay servers, the proxy and the control implement
their ports. In mode `single`, objects of the same process do
(`slipway.launch.nodes.local_ports`).
"""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.replay.items import frames as frames_lib
from slipway.replay.variables import variable_packing


class ItemSink(typing.Protocol):
  """Protocol of the writer that inserts a worker's items into a table.

  Attributes:
    written: number of items passed to `write`.
    lost: number of items that were in flight when a stream broke.
    discarded: number of items in flight at `close` that the table rejected.
    streams: number of streams that were opened.
    waits_for: text with the reason why the last `wait` returned False, such as
      'the table to take items'.
  """

  written: int
  lost: int
  discarded: int
  streams: int
  waits_for: str

  @property
  def confirmed(self) -> int:
    """Number of written items that the server has confirmed."""
    ...

  def wait(self, timeout_s: float) -> bool:
    """Waits until items can be written, or until a timeout.

    Args:
      timeout_s: seconds after which the wait ends.

    Returns:
      True if items can be written; False if the table is full or no stream can
      be opened, with the reason in `waits_for`.
    """
    ...

  def write(
    self,
    records: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> None:
    """Writes N items; to be called only after `wait` has returned True.

    Args:
      records: uint8 [N, record_bytes], packed record of each item.
      priorities: float [N], priority of each item.
      frames: frames of the items, or None if items have no stacked frames.
    """
    ...

  def flush(self, timeout_s: float) -> bool:
    """Waits until no item is in flight, or until a timeout.

    Args:
      timeout_s: seconds after which the wait ends.

    Returns:
      True if no item is in flight; False after the timeout.
    """
    ...

  def close(self, timeout_s: float) -> bool:
    """Flushes the written items, and closes the stream.

    Args:
      timeout_s: seconds that the flush may take.

    Returns:
      True if all items were confirmed or lost; False after the timeout. The
      items that are still in flight then count as `discarded`.
    """
    ...


class VariablesSource(typing.Protocol):
  """Protocol by which a worker or an evaluator polls for new variables."""

  def poll(self) -> variable_packing.VersionedVariables | None:
    """Returns the newest published variables, each version only once.

    Returns:
      The variables with their version, or None if no version was published
      since the last one that this source returned.
    """
    ...


class VariablesSink(typing.Protocol):
  """Protocol by which a trainer publishes the learner's variables."""

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Publishes variables as the next version.

    Args:
      variables: arrays by name, as from a learner's `get_variables`.

    Returns:
      The version number.
    """
    ...

  def close(self) -> None:
    """Closes the connection to the server of the variables."""
    ...
