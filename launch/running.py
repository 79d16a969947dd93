"""Running: the address of a run that lasts, for other processes of its user."""

import json
import socket

from slipway.launch.display import status_text
from slipway.launch.runs import run_address, run_folder


class NotRunningError(Exception):
  """A run has ended, or does not reply, in one line."""


def find(folder: run_folder.RunFolder) -> run_address.RunAddress:
  """Returns where a run's control node replies.

  Raises:
    NotRunningError: the run is not running, or not on this machine.
    ValueError: one line: the file with the address can't be read.
  """
  where, name = run_address.read(folder), str(folder.path)
  if where is None:
    raise NotRunningError(_why_not_found(folder))
  if where.host != socket.gethostname():
    raise NotRunningError(
      f"run {name!r} is on {where.host}, and replies there only: use that "
      "machine"
    )
  if where.gone:
    raise NotRunningError(
      f"run {name!r} does not answer: its control node, process "
      f"{where.pid}, is down; the run was killed, or restarts it"
    )
  return where


def has_ended(folder: run_folder.RunFolder) -> bool:
  """Whether a run has ended in order, and left its summary."""
  return run_address.read(folder) is None and folder.summary.exists()


def _why_not_found(folder: run_folder.RunFolder) -> str:
  name = repr(str(folder.path))
  if folder.summary.exists():
    summary = json.loads(folder.summary.read_text("utf-8"))
    because = summary["stopped_because"]
    return f"run {name} has ended: {status_text.reason(because)}"
  return f"run {name} has no control.json: it is not up yet, or was killed"
