"""Failures: what became of a process, in one line."""

import pathlib
import signal


def explain(name: str, exit_status: int, log: pathlib.Path, start: int) -> str:
  """One line: which node failed, why, and where its log is.

  Args:
    name: of the node.
    exit_status: of its process; negative: the signal that ended it.
    log: file that has what it printed.
    start: byte of the log where this life of the node began.
  """
  with open(log, errors="replace") as file:
    file.seek(start)
    lines = file.read().splitlines()
  if any(line.startswith("Traceback (most recent") for line in lines):
    last = [line for line in lines if line and not line[0].isspace()]
    errors = [line for line in last if "Error" in line.split(":")[0]]
    return f"node {name} failed: {(errors or last)[-1]} (log: {log})"
  how = (
    f"was ended by {signal.Signals(-exit_status).name}"
    if exit_status < 0
    else f"ended with exit status {exit_status}"
  )
  return f"node {name} {how} (log: {log})"
