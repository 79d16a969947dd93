"""Running: finds an active run, and connects to its launcher."""

import contextlib
import time
from collections.abc import Iterator

from slipway.launch.control import calls, control_service
from slipway.launch.display import rows
from slipway.launch.runs import (
  run_address,
  run_counters,
  run_folder,
  run_lock,
  run_status,
  snapshot_store,
)

_SAVE_TIMEOUT_S = 120.0  # seconds in which a requested snapshot must be written
_POLL_S = 0.1  # seconds between two checks whether it is


class RunUnavailableError(ConnectionError):
  """Error for a run that can't be reached from this machine.

  The run has ended, has not started, is on another machine, or does not reply.
  """


def find(
  folder: run_folder.RunFolder, launcher_pid: int | None = None
) -> run_address.RunAddress:
  """Returns the address of an active run's launcher on this machine.

  If `launcher_pid` is given, only the run of that process counts.

  Raises:
    RunUnavailableError: the run is not active, is on another machine, or is
      that of another launcher.
    ValueError: the file with the address can't be read, or the run has ended
      and its summary can't be read.
  """
  address, name = run_address.read(folder), str(folder.path)
  if address is None:
    raise RunUnavailableError(_why_not_found(folder))
  if not address.is_local:
    raise RunUnavailableError(
      f"run {name!r} is on {address.host}, and can only be reached there: this "
      "is another machine or container"
    )
  if not run_lock.is_held(folder):
    raise RunUnavailableError(
      f"run {name!r} does not reply: its launcher, process "
      f"{address.pid}, is down; the run was killed"
    )
  if launcher_pid not in (None, address.pid):
    raise RunUnavailableError(
      f"run {name!r} has not been started by process {launcher_pid}: the "
      "active run in the folder is another one"
    )
  return address


@contextlib.contextmanager
def connect(
  folder: run_folder.RunFolder, launcher_pid: int | None = None
) -> Iterator[control_service.ControlService]:
  """Yields a client of the launcher of an active run on this machine.

  ```python
  with running.connect(folder) as control:
    control.set("limits.target_return", 475.0)
  ```

  The arguments are those of `find`.

  Raises:
    RunUnavailableError: the run is not active, is on another machine, is that
      of another launcher, or does not reply to a call.
    ValueError: the run has rejected a call, or the file with the address can't
      be read.
  """
  address = find(folder, launcher_pid)
  try:
    yield calls.connect(control_service.ControlService, address.address)
  except calls.UnreachableError as error:
    raise RunUnavailableError(
      f"run {str(folder.path)!r} does not reply (process {address.pid} on "
      f"{address.host}): {error}; try again, or stop the run by a signal to "
      "its launcher"
    ) from error


def has_ended(folder: run_folder.RunFolder) -> bool:
  """Returns whether a run has ended and written its summary."""
  return run_address.read(folder) is None and folder.summary.exists()


def find_snapshot(
  folder: run_folder.RunFolder, saves: bool
) -> snapshot_store.Snapshot:
  """Returns the newest snapshot of a run.

  Args:
    saves: whether the run, an active one, writes a new one first.

  Raises:
    RunUnavailableError: as `connect`, or the snapshot takes too long.
    ValueError: there is none.
  """
  if saves:
    _save(folder)
  snapshot = snapshot_store.SnapshotStore(folder).newest()
  if snapshot is None:
    advice = "it has ended without one, and will have none"
    if run_lock.is_held(folder):
      advice = "request one, by --save"
    raise ValueError(
      f"{str(folder.path)!r} has no complete snapshot, so there is nothing to "
      f"read: {advice}"
    )
  return snapshot


def _save(folder: run_folder.RunFolder) -> None:
  """Lets an active run write a snapshot, and waits for it."""
  with connect(folder) as control:
    end_s = time.monotonic() + _SAVE_TIMEOUT_S
    before = control.status().snapshots.written
    control.save()
    while control.status().snapshots.written == before:
      time.sleep(_POLL_S)
      if time.monotonic() > end_s:
        raise RunUnavailableError(
          f"run {str(folder.path)!r} has not written a snapshot within "
          f"{_SAVE_TIMEOUT_S:.0f} s: use the last one, without --save; "
          f"{str(folder.logs)!r} may say why"
        )


def read_state(
  folder: run_folder.RunFolder,
) -> tuple[str, run_status.RunStatus | None, str]:
  """Returns a run's state, status and error.

  The state is 'active', 'ended', 'killed', 'not started' or 'unknown'. The
  status is that of this moment for an active run, the summary of an ended one,
  that of the newest snapshot of a killed one, and else None.
  """
  try:
    address = run_address.read(folder)
    if address is None and folder.summary.exists():
      return "ended", run_status.read_summary(folder), ""
    if address is not None and (
      not address.is_local or run_lock.is_held(folder)
    ):
      with connect(folder) as control:
        return "active", control.status(), ""
    newest = snapshot_store.SnapshotStore(folder).newest()
    if newest is not None:
      return "killed", run_counters.RunCounters.read(newest.path).status, ""
    has_begun = address is not None or folder.curves_csv.exists()
    return "killed" if has_begun else "not started", None, ""
  except (RunUnavailableError, ValueError, OSError) as error:
    return "unknown", None, str(error)


def _why_not_found(folder: run_folder.RunFolder) -> str:
  """Returns an error message about a run without a launcher's address."""
  name = repr(str(folder.path))
  if folder.summary.exists():
    because = run_status.read_summary(folder).stopped_because
    return f"run {name} has ended: {rows.describe_reason(because)}"
  return (
    f"run {name} has no control.json: it has not started yet, or was killed"
  )
