"""Tree: the processes of a run, with their memory and CPU time."""

import contextlib
import pathlib
import re
import typing
from collections.abc import Mapping

import psutil

LAUNCHER, FORK_SERVER, TRACKER = "launcher", "fork server", "resource tracker"

_MB = 1e6
_KB = 1024  # as /proc has it


class Member(typing.NamedTuple):
  """One process of a run.

  Attributes:
    role: 'worker', or what it is besides the nodes.
    pss_mb: its memory, of shared pages its share (PSS), in 1e6 bytes.
    private_mb: what no other process shares.
    cpu_s: that it has used, all threads.
  """

  role: str
  pss_mb: float
  private_mb: float
  cpu_s: float


def members(launcher: int, nodes: Mapping[str, int]) -> list[Member]:
  """All processes of a run that are there now, the launcher first.

  Args:
    launcher: its process.
    nodes: process by node, such as 'worker/1'.
  """
  roles = {pid: node.partition("/")[0] for node, pid in nodes.items()}
  root = psutil.Process(launcher)
  found = []
  for process in (root, *root.children(recursive=True)):
    with contextlib.suppress(psutil.Error, OSError):  # it has just ended
      role = LAUNCHER if process == root else roles.get(process.pid)
      found.append(_member(process, role or _helper(process)))
  return found


def cpu_s(found: list[Member]) -> dict[str, float]:
  """CPU seconds of all processes of a role, by role."""
  seconds: dict[str, float] = {}
  for member in found:
    seconds[member.role] = seconds.get(member.role, 0.0) + member.cpu_s
  return seconds


def _helper(process: psutil.Process) -> str:
  is_tracker = any("resource_tracker" in word for word in process.cmdline())
  return TRACKER if is_tracker else FORK_SERVER


def _member(process: psutil.Process, role: str) -> Member:
  rollup = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
  kb = {k: int(v) for k, v in re.findall(r"(\w+): +(\d+) kB", rollup)}
  times = process.cpu_times()
  return Member(
    role,
    pss_mb=kb["Pss"] * _KB / _MB,
    private_mb=(kb["Private_Clean"] + kb["Private_Dirty"]) * _KB / _MB,
    cpu_s=times.user + times.system,
  )
