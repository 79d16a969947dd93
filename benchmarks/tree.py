"""Tree: memory and CPU time of all processes of a run."""

import contextlib
import pathlib
import re
import typing
from collections.abc import Mapping

import psutil

LAUNCHER, FORK_SERVER = "launcher", "fork server"

_MB = 1e6
_KB = 1024  # as /proc has it


class Member(typing.NamedTuple):
  """Measurements of one process of a run.

  Attributes:
    role: role of the node, such as 'worker', or the kind of another process.
    pss_mb: memory in which shared pages count in part (PSS), in 1e6 bytes.
    private_mb: memory that no other process shares, in 1e6 bytes.
    cpu_s: CPU seconds of all threads.
  """

  role: str
  pss_mb: float
  private_mb: float
  cpu_s: float


def members(launcher: int, nodes: Mapping[str, int]) -> list[Member]:
  """Returns all processes of a run that exist now, the launcher first.

  Args:
    launcher: process id of the launcher.
    nodes: process id of each node, by node, such as 'worker/1'.
  """
  roles = {pid: node.partition("/")[0] for node, pid in nodes.items()}
  root = psutil.Process(launcher)
  found = []
  for process in (root, *root.children(recursive=True)):
    with contextlib.suppress(psutil.Error, OSError):  # it has just ended
      role = LAUNCHER if process == root else roles.get(process.pid)
      found.append(_member(process, role or FORK_SERVER))
  return found


def cpu_s(found: list[Member]) -> dict[str, float]:
  """Returns the CPU seconds of the processes of each role, by role."""
  seconds: dict[str, float] = {}
  for member in found:
    seconds[member.role] = seconds.get(member.role, 0.0) + member.cpu_s
  return seconds


def _member(process: psutil.Process, role: str) -> Member:
  """Measures a process."""
  rollup = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
  kb = {k: int(v) for k, v in re.findall(r"(\w+): +(\d+) kB", rollup)}
  times = process.cpu_times()
  return Member(
    role,
    pss_mb=kb["Pss"] * _KB / _MB,
    private_mb=(kb["Private_Clean"] + kb["Private_Dirty"]) * _KB / _MB,
    cpu_s=times.user + times.system,
  )
