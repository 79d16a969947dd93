"""Processes: the process of each run of a sweep, `slipway train`."""

import signal
import subprocess

from slipway.launch.processes import attached_process
from slipway.launch.sweeps import space, sweep_folder


class TrainProcess:
  """The process of one run; `slipway train` with its output in a file.

  Attributes:
    run: the run.
    log_start: size of the log in bytes before this process.
  """

  def __init__(
    self,
    run: sweep_folder.SweepRun,
    flags: list[str],
    setting: space.Setting,
    resumes: bool,
  ):
    """Starts or resumes the run.

    Args:
      run: the run, whose folder may exist from an earlier process.
      flags: flags of `slipway train` for all runs of the sweep.
      setting: the values of the run's setting.
      resumes: whether the run continues from a snapshot.

    Raises:
      OSError: the log can't be written.
    """
    self.run = run
    with run.log.open("ab") as log:
      self.log_start = log.tell()
      self._process, self._alive_pipe = attached_process.start(
        make_flags(run, flags, setting, resumes),
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # a Ctrl-C reaches only this process
      )

  def poll(self) -> int | None:
    """Returns the exit status, or None while the process runs."""
    status = self._process.poll()
    if status is not None and self._alive_pipe >= 0:
      attached_process.close(self._alive_pipe)
      self._alive_pipe = -1
    return status

  def stop(self) -> None:
    """Requests that the run stops with a last snapshot; a second call kills."""
    self._process.send_signal(signal.SIGINT)


def make_flags(
  run: sweep_folder.SweepRun,
  flags: list[str],
  setting: space.Setting,
  resumes: bool,
) -> list[str]:
  """Returns the flags of `slipway train` that start or resume a run.

  Args:
    run: the run.
    flags: flags for all runs of the sweep.
    setting: the values of the run's setting.
    resumes: whether the run continues from a snapshot.
  """
  folder = run.folder
  if resumes:
    # A resume takes the run's own config and mode, and all flags that place its
    # nodes.
    own = ("--config", "--noconfig.", "-config", "-noconfig.")
    own += ("--mode=", "-mode=")
    placing = (flag for flag in flags if not flag.startswith(own))
    return [f"--resume={folder.path}", *placing]
  return [
    *flags,
    *space.to_flags(setting),
    f"--config.seed={run.seed}",
    f"--run_dir={folder.path.parent}",
    f"--name={folder.path.name}",
    "--overwrite",  # a run that has saved nothing begins again
  ]


def describe_failure(
  run: sweep_folder.SweepRun, status: int, log_start: int
) -> str:
  """Returns why a run has failed, in one line.

  Args:
    run: the run.
    status: exit status of its process; a negative one is that of a signal.
    log_start: size of the log in bytes before the process.
  """
  if status > 0:
    return run.read_error(log_start)
  text = f"ended by signal {-status} ({signal.strsignal(-status)})"
  if status == -signal.SIGKILL:
    text += ", perhaps because the machine's memory had run out"
  return text
