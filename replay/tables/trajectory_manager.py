"""TrajectoryManager: a Reverb server with the tables of a run."""

import pathlib
import shutil
import socket
import tempfile
from collections.abc import Sequence

import reverb

from slipway.replay.tables import table_snapshot, table_status
from slipway.replay.transport import loopback, socket_passing


class TrajectoryManager:
  """Reverb server with a run's tables, which can be saved and restored.

  Attributes:
    address: address of the server for clients, '127.0.0.1:PORT'.
  """

  def __init__(
    self,
    tables: Sequence[reverb.Table],
    port: int,
    saving_dir: pathlib.Path | None = None,
    restore_from: pathlib.Path | None = None,
    passing_path: str | None = None,
  ):
    """Starts the server, with empty tables or with those of a checkpoint.

    Args:
      tables: tables to serve, at least one.
      port: TCP port to listen on, for clients on this host only (`loopback`).
      saving_dir: folder in which Reverb writes checkpoints for
        `table_snapshot.TableSaver`. It is emptied, and must not be shared.
        None: tables can't be saved or restored.
      restore_from: folder outside of `saving_dir` with a checkpoint by
        `table_snapshot.TableSaver`, whose items are restored with the settings
        of `tables`. None: the tables start empty.
      passing_path: path of a unix socket by which processes in other network
        namespaces connect; see `socket_passing`. None: no such socket.

    Raises:
      OSError: the port is in use, or can't be restricted to this host.
      ValueError: the checkpoint does not fit the tables, or is damaged.
    """
    _check_port_is_free(port)
    self._saving_dir = saving_dir
    if saving_dir:
      table_snapshot.empty(saving_dir)
    if restore_from:
      self._server = self._restore(tables, port, restore_from)
    else:
      self._server = self._serve(tables, port, None)
    try:
      loopback.confine(port)
    except OSError:
      self._server.stop()
      raise
    self.address = f"127.0.0.1:{port}"
    self._client = reverb.Client(self.address)
    self._passer = None
    if passing_path is not None:
      self._passer = socket_passing.Passer(passing_path, port)

  def status(self, table: str, timeout_s: int = 5) -> table_status.TableStatus:
    """Returns the counts of one table, by the table's name.

    Args:
      timeout_s: seconds to wait for the server, at least 1.

    Raises:
      KeyError: there is no such table.
      TimeoutError: the server does not reply, since it lists the items of a
        large table for a snapshot.
    """
    try:
      return table_status.read(self._client, table, timeout_s)
    except reverb.errors.ReverbError as error:
      raise TimeoutError(
        f"the table {table!r} did not reply within {timeout_s} s: {error}"
      ) from error

  def close(self) -> None:
    """Stops the server; blocked clients get an error.

    Also deletes the `saving_dir`.
    """
    if self._passer is not None:
      self._passer.close()
    self._server.stop()
    if self._saving_dir:
      shutil.rmtree(self._saving_dir, ignore_errors=True)

  def _serve(
    self,
    tables: Sequence[reverb.Table],
    port: int,
    checkpoint: pathlib.Path | None,
  ) -> reverb.Server:
    checkpointer = None
    if self._saving_dir:
      checkpointer = reverb.checkpointers.DefaultCheckpointer(
        str(self._saving_dir),
        fallback_checkpoint_path=checkpoint and str(checkpoint),
      )
    return reverb.Server(list(tables), port, checkpointer)

  def _restore(
    self, tables: Sequence[reverb.Table], port: int, saved: pathlib.Path
  ) -> reverb.Server:
    """Starts Reverb's server with the items of a checkpoint."""
    # A temporary file of a run is in memory: the disk of the run may be full.
    with tempfile.TemporaryDirectory() as temporary:
      fitted = pathlib.Path(temporary, "fitted")
      table_snapshot.copy_with_settings(saved, fitted, tables)
      try:
        return self._serve(tables, port, fitted)
      except (RuntimeError, reverb.errors.ReverbError) as error:
        raise ValueError(
          f"{str(saved)!r} cannot be restored ({error}): resume from another "
          "snapshot"
        ) from error


def _check_port_is_free(port: int) -> None:
  """Raises OSError if a TCP port is in use."""
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
