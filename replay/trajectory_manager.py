"""The TrajectoryManager: a Reverb server with the tables of a run."""

import pathlib
import shutil
import socket
from collections.abc import Sequence

import reverb

from replay import table_snapshot, table_status


class TrajectoryManager:
  """Holds the tables, serves them on one port, saves and restores them."""

  def __init__(
    self,
    tables: Sequence[reverb.Table],
    port: int,
    saving_dir: pathlib.Path | None = None,
    restore_from: pathlib.Path | None = None,
  ):
    """Starts serving, with what was saved if `restore_from` says where.

    Args:
      tables: at least one.
      port: TCP, on all interfaces: Reverb can bind nothing else.
      saving_dir: of this object alone, and emptied: where Reverb writes what
        is saved. None: nothing can be saved or restored.
      restore_from: folder that `start_saving` has made, of the same file
        system as `saving_dir`; see `table_snapshot.fit` for what becomes of
        it where `tables` are other ones.

    Raises:
      OSError: the port is taken.
      ValueError: what was saved does not fit the tables, or is damaged.
    """
    _check_port(port)
    self._saving_dir = saving_dir
    if restore_from:
      self._check_restorable(restore_from)
    if saving_dir:
      table_snapshot.empty(saving_dir)
    if restore_from:
      self._server = self._restore(tables, port, restore_from)
    else:
      self._server = self._serve(tables, port, None)
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

  def start_saving(self, path: pathlib.Path) -> table_snapshot.Saving:
    """Begins to save all tables; one saving at a time.

    Args:
      path: folder to be made, of the same file system as `saving_dir`.

    Raises:
      RuntimeError: there is no folder to write to.
    """
    if not self._saving_dir:
      # Reverb would write to a temporary folder that nothing restores from.
      raise RuntimeError(
        "saving_dir=None: the tables can't be saved; give the "
        "TrajectoryManager a folder"
      )
    # A saving that failed half-way would look like the beginning of this one.
    table_snapshot.empty(self._saving_dir)
    return table_snapshot.Saving(self._client, self._saving_dir, path)

  def close(self) -> None:
    """Stops serving; clients that wait get an error."""
    self._server.stop()

  def _serve(
    self,
    tables: Sequence[reverb.Table],
    port: int,
    restored: pathlib.Path | None,
  ) -> reverb.Server:
    checkpointer = None
    if self._saving_dir:
      checkpointer = reverb.checkpointers.DefaultCheckpointer(
        str(self._saving_dir),
        fallback_checkpoint_path=restored and str(restored),
      )
    return reverb.Server(list(tables), port, checkpointer)

  def _check_restorable(self, saved: pathlib.Path) -> None:
    where = self._saving_dir
    if not where or where.resolve() in (saved / "_").resolve().parents:
      raise ValueError(
        f"restore_from={str(saved)!r} needs a saving_dir outside of it, but "
        f"that is {where and str(where)!r}, which is emptied: give the "
        "TrajectoryManager a folder of its own"
      )

  def _restore(
    self, tables: Sequence[reverb.Table], port: int, saved: pathlib.Path
  ) -> reverb.Server:
    assert self._saving_dir
    # Not in the folder itself, where Reverb would take it for its newest.
    fitted = self._saving_dir.with_name(f"{self._saving_dir.name}.restored")
    shutil.rmtree(fitted, ignore_errors=True)
    table_snapshot.fit(saved, fitted, tables)
    try:
      return self._serve(tables, port, fitted)
    except (RuntimeError, reverb.errors.ReverbError) as error:
      raise ValueError(
        f"{str(saved)!r} cannot be restored ({error}): resume from another "
        "snapshot"
      ) from error
    finally:
      shutil.rmtree(fitted)


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
