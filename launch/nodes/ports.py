"""Ports: the interfaces that worker, trainer and evaluator read and write.

Worker, trainer and evaluator are the same in every mode. Their ports are
implemented by Reverb, proxy and control node, or by objects of one process.
"""

import typing
from collections.abc import Mapping, Sequence

import numpy as np

from slipway.replay.items import frames as frames_lib
from slipway.replay.variables import variable_packing


class ItemSink(typing.Protocol):
  """The destination of a worker's items.

  Attributes:
    written: number of items passed to `write`.
    lost: number of items that were in flight when a stream broke.
    discarded: number of items in flight at `close` that the table rejected.
    streams: number of streams that were opened.
    waits_for: the reason why the last `wait` returned False.
  """

  written: int
  lost: int
  discarded: int
  streams: int
  waits_for: str

  @property
  def confirmed(self) -> int:
    """Number of items whose arrival the server has confirmed."""
    ...

  def wait(self, timeout_s: float) -> bool:
    """Waits until items can be written; returns whether they can.

    Args:
      timeout_s: seconds after which the wait ends.
    """
    ...

  def write(
    self,
    records: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> None:
    """Writes N items; must follow a `wait` that returned True.

    Args:
      records: uint8 [N, record_bytes], packed record of each item.
      priorities: float [N], priority of each item.
      frames: frames of the items, or None if items have no stacked frames.
    """
    ...

  def flush(self, timeout_s: float) -> bool:
    """Waits until no item is in flight; returns whether none is.

    Args:
      timeout_s: seconds after which the wait ends.
    """
    ...

  def close(self, timeout_s: float) -> bool:
    """Writes queued items and disconnects; returns whether all arrived."""
    ...


class VariablesSource(typing.Protocol):
  """A source of variables, for a worker or an evaluator."""

  def poll(self) -> variable_packing.VersionedVariables | None:
    """Returns the newest variables, or None if they were returned before."""
    ...


class VariablesSink(typing.Protocol):
  """The destination of a trainer's variables, which publishes them.

  Attributes:
    pending: whether the last variables did not arrive and should be published
      again.
  """

  pending: bool

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Publishes variables; returns the newest version that was published.

    Args:
      variables: arrays by name, as from a learner's `get_variables`.
    """
    ...

  def close(self) -> None:
    """Closes the connection."""
    ...


class EvaluationSink(typing.Protocol):
  """A function that receives an evaluator's results."""

  def __call__(
    self,
    returns: Sequence[float],
    lengths: Sequence[int],
    newest: variable_packing.VersionedVariables,
  ) -> None:
    """Receives the episodes of an evaluation of one version."""
    ...
