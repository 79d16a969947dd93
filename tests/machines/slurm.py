"""SLURM, as far as a batch script can tell, on hosts of a test."""

import contextlib
import os
import pathlib
import time
from collections.abc import Sequence

from tests.machines import hosts, runs

# On the first host: says what it was told, and ends as the tasks do.
_SRUN = """#!/bin/sh
printf '%s\\0' "$@" >{folder}/arguments
env -0 >{folder}/environment
read status <{folder}/status
exit $status
"""
_SCONTROL = """#!/bin/sh
[ "$*" = "show hostnames {nodes}" ] && printf '%s\\n' {names}
"""


class Job:
  """A batch script with one step, as a job with a host for each task."""

  def __init__(
    self,
    folder: pathlib.Path,
    machines: Sequence[hosts.Host],
    script: str,
    *arguments: str,
  ):
    """Submits it, and starts its step's tasks.

    Args:
      folder: for its files; the hosts have it at the same path.
      machines: the hosts that the job gets.
      script: path below the repository, and its arguments.
    """
    self._folder = folder
    self._said = folder / "said"
    names = [machine.name for machine in machines]
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name, text in (("srun", _SRUN), ("scontrol", _SCONTROL)):
      program = programs / name
      nodes = ",".join(names)
      program.write_text(
        text.format(folder=folder, nodes=nodes, names=" ".join(names))
      )
      program.chmod(0o755)
    os.mkfifo(folder / "status")
    self._batch = machines[0].start(
      ["sh", script, *arguments],
      self._said,
      {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NODELIST": ",".join(names),
        "SLURM_JOB_NUM_NODES": str(len(names)),
        "SLURM_CPUS_PER_TASK": "2",
      },
    )
    given = runs.wait_until(lambda: self._read("environment"))
    environment = dict(pair.split("=", 1) for pair in given)
    argv = self._read("arguments")
    self.options = set()
    while argv[0].startswith("--"):
      self.options.add(argv.pop(0))
    self._tasks = [m.start(argv, self._said, environment) for m in machines]

  @property
  def said(self) -> str:
    """By the script and all tasks."""
    return self._said.read_text()

  def cancel(self) -> None:
    """What `scancel` begins with: SIGTERM to all tasks and to the script.

    Of a task its first process, as with SLURM's proctrack/cgroup. When the time
    is nearly up, --signal=TERM is for the tasks alone.
    """
    for process in (*self._tasks, self._batch):
      process.terminate()

  def wait(self, timeout_s: float) -> int:
    """Waits until all tasks have ended; returns the script's exit status."""
    deadline_s = time.monotonic() + timeout_s
    worst = 0
    for task in self._tasks:
      status = task.wait(max(0.0, deadline_s - time.monotonic()))
      worst = max(worst, status if status >= 0 else 128 - status)
    (self._folder / "status").write_text(f"{worst}\n")
    return self._batch.wait(10)

  def _read(self, name: str) -> list[str]:
    """What `srun` has written; nothing if it has not."""
    with contextlib.suppress(FileNotFoundError):
      return (self._folder / name).read_text().split("\0")[:-1]
    return []
