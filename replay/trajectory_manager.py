"""The TrajectoryManager: a Reverb server with the tables of a run."""

import os
import socket
from collections.abc import Sequence

import reverb

from replay import table_status


class TrajectoryManager:
  """Holds the tables, serves them on one port, saves and restores them.

  A restored table keeps the limiter, size and exponent of its checkpoint.
  """

  def __init__(
    self,
    tables: Sequence[reverb.Table],
    port: int,
    checkpoint_dir: str | None = None,
  ):
    """Starts serving; restores the newest checkpoint of the folder, if any.

    Args:
      tables: at least one.
      port: TCP, on all interfaces: Reverb can bind nothing else.
      checkpoint_dir: where `checkpoint` writes; None: nowhere.

    Raises:
      OSError: the port is taken.
    """
    _check_port(port)
    self._checkpoint_dir = checkpoint_dir
    checkpointer = None
    if checkpoint_dir:
      os.makedirs(checkpoint_dir, exist_ok=True)
      checkpointer = reverb.checkpointers.DefaultCheckpointer(checkpoint_dir)
    self._server = reverb.Server(
      tables=list(tables), port=port, checkpointer=checkpointer
    )
    self.address = f"localhost:{port}"
    self._client = reverb.Client(self.address)

  def status(self, table: str) -> table_status.TableStatus:
    """Counts of one table."""
    info = self._client.server_info(timeout=5)[table]
    limiter = info.rate_limiter_info
    return table_status.TableStatus.of(
      size=info.current_size,
      inserted=limiter.insert_stats.completed,
      sampled=limiter.sample_stats.completed,
      min_size=limiter.min_size_to_sample,
    )

  def checkpoint(self) -> str:
    """Saves all tables, which blocks them meanwhile.

    Returns:
      The folder that was written.

    Raises:
      RuntimeError: there is no folder to write to.
    """
    if not self._checkpoint_dir:
      # Reverb would write to a temporary folder that nothing restores from.
      raise RuntimeError(
        "checkpoint_dir=None: the tables can't be saved; give the "
        "TrajectoryManager a folder"
      )
    return self._client.checkpoint()

  def close(self) -> None:
    """Stops serving; clients that wait get an error."""
    self._server.stop()


def _check_port(port: int) -> None:
  # gRPC sets SO_REUSEPORT: a second server would start and take half of the
  # first one's connections.
  with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
      probe.bind(("", port))
    except OSError as error:
      raise OSError(
        f"replay port {port} is in use ({error.strerror}): the "
        "TrajectoryManager can't serve there; stop what holds the port or "
        "choose another"
      ) from error
