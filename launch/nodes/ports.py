"""Ports: what worker, trainer and evaluator read from and write to.

The same classes run in every mode; only what stands behind their ports
differs: Reverb, the proxy and the control node, or objects of one process.
"""

import typing
from collections.abc import Mapping, Sequence

import numpy as np

from slipway.replay.items import frames as frames_lib
from slipway.replay.variables import variable_packing


class ItemSink(typing.Protocol):
  """Where a worker writes items to.

  Attributes:
    written: items taken by `write`.
    lost: items that were in flight when a stream broke.
    discarded: items in flight at `close` that the table no longer took.
    streams: that were opened.
    waits_for: what the last `wait` that returned False waited for.
  """

  written: int
  lost: int
  discarded: int
  streams: int
  waits_for: str

  @property
  def confirmed(self) -> int:
    """Items that are known to have arrived."""
    ...

  def wait(self, timeout_s: float) -> bool:
    """Waits until items can be written; returns whether they can."""
    ...

  def write(
    self,
    records: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> None:
    """Writes items, right after a `wait` that returned True."""
    ...

  def flush(self, timeout_s: float) -> bool:
    """Waits until nothing is in flight; returns whether nothing is."""
    ...

  def close(self, timeout_s: float) -> bool:
    """Writes what is queued and disconnects; returns whether all arrived."""
    ...


class VariablesSource(typing.Protocol):
  """Gives each new version of the variables once."""

  def poll(self) -> variable_packing.VersionedVariables | None:
    """Returns the newest version; None: it was returned before."""
    ...


class VariablesSink(typing.Protocol):
  """Where a trainer publishes to.

  Attributes:
    pending: whether the last variables did not arrive, so that they should be
      published again.
  """

  pending: bool

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Makes the variables the newest version; returns the last version used."""
    ...

  def close(self) -> None:
    """Disconnects."""
    ...


class EvaluationSink(typing.Protocol):
  """Where an evaluator's results go."""

  def __call__(
    self,
    returns: Sequence[float],
    lengths: Sequence[int],
    snapshot: variable_packing.VersionedVariables,
  ) -> None:
    """Takes the episodes that were played with a version."""
    ...
