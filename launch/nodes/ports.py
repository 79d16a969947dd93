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

  `slipway.replay.items.writer.ItemWriter` describes attributes and methods.
  """

  written: int
  lost: int
  discarded: int
  streams: int
  waits_for: str

  @property
  def confirmed(self) -> int: ...

  def wait(self, timeout_s: float) -> bool: ...

  def write(
    self,
    records: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> None: ...

  def flush(self, timeout_s: float) -> bool: ...

  def close(self, timeout_s: float) -> bool: ...


class VariablesSource(typing.Protocol):
  """Protocol by which a worker or an evaluator polls for new variables."""

  def poll(self) -> variable_packing.VersionedVariables | None:
    """Returns the newest variables; None if it has returned them before."""
    ...


class VariablesSink(typing.Protocol):
  """Protocol by which a trainer publishes the learner's variables."""

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Publishes variables by name as the next version; returns its number."""
    ...

  def close(self) -> None:
    """Closes the connection to the server of the variables."""
    ...
