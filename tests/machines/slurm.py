"""SLURM: emulates what a batch script uses of it, on the hosts of a test."""

import contextlib
import os
import pathlib
import time
from collections.abc import Sequence

from tests.machines import hosts, runs

# `srun` on the first host: writes its arguments and environment to files, and
# exits with the status of the tasks.
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
  """A job: a batch script with one step, which has a task per host."""

  def __init__(
    self,
    folder: pathlib.Path,
    machines: Sequence[hosts.Host],
    script: str,
    *arguments: str,
  ):
    """Submits the job, and starts the tasks of its step.

    Args:
      folder: folder for the job's files, at the same path on all hosts.
      machines: hosts of the job.
      script: path of the batch script, relative to the repository.
      *arguments: arguments of the script.
    """
    self._folder = folder
    self._output = folder / "said"
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
      self._output,
      {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NODELIST": ",".join(names),
        "SLURM_JOB_NUM_NODES": str(len(names)),
        "SLURM_CPUS_PER_TASK": "2",
      },
    )
    variables = runs.wait_until(lambda: self._read("environment"))
    environment = dict(pair.split("=", 1) for pair in variables)
    argv = self._read("arguments")
    self.options = set()
    while argv[0].startswith("--"):
      self.options.add(argv.pop(0))
    self._tasks = [m.start(argv, self._output, environment) for m in machines]

  @property
  def output(self) -> str:
    """Output of the script and of all tasks."""
    return self._output.read_text()

  def cancel(self) -> None:
    """Sends SIGTERM to all tasks and to the script, as `scancel` does first.

    Only the first process of each task gets the signal, as with SLURM's
    proctrack/cgroup. Near the time limit, SLURM's --signal=TERM sends it to the
    tasks only.
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
    """Returns the entries of a file of `srun`; none if the file is missing."""
    with contextlib.suppress(FileNotFoundError):
      return (self._folder / name).read_text().split("\0")[:-1]
    return []
