"""Slot: trains a run of a sweep, whole, on any machine of a Ray cluster.

The sweep (`slipway.launch.sweeps.slots`) starts a slot for each run, as a Ray
actor, and polls it. The run writes to the sweep's folder, which all machines
share.
"""

import pathlib
import tempfile
import time
import typing

from slipway.launch.runs import run_folder
from slipway.launch.sweeps import processes, sweep_folder

_POLL_S = 0.2  # seconds between two checks whether a killed run has ended


class SlotTask(typing.NamedTuple):
  """Description of the run that a slot has to train.

  Attributes:
    folder: absolute path of the run's folder, in the sweep's folder.
    log: absolute path of the file for the run's output.
    seed: the run's seed.
    config: the whole config, as the text of a config.json, with that seed.
    resumes: whether the run continues from a snapshot.
  """

  folder: str
  log: str
  seed: int
  config: str
  resumes: bool


class Slot:
  """Trains one run on this machine; the methods are called remotely."""

  def __init__(self, task: SlotTask):
    """Keeps the task, without starting it."""
    self._task = task
    self._process: processes.TrainProcess | None = None
    self._folder = tempfile.TemporaryDirectory()  # of the file with the config

  def poll(self) -> int | None:
    """Starts the run at the first call; returns the exit status at its end.

    Raises:
      OSError: the sweep's folder is not on this machine, or can't be written.
    """
    if self._process is None:
      self._process = self._start()
    return self._process.poll()

  def stop(self) -> None:
    """Interrupts the run: the first call lets it save itself, the second kills.

    To be called after the first `poll`.
    """
    if self._process is not None:  # else the start has failed
      self._process.stop()

  def close(self) -> None:
    """Kills the run if it has not ended."""
    while self._process is not None and self._process.poll() is None:
      self._process.stop()
      time.sleep(_POLL_S)
    self._folder.cleanup()

  def _start(self) -> processes.TrainProcess:
    """Starts `slipway train`."""
    task = self._task
    folder, log = run_folder.RunFolder(task.folder), pathlib.Path(task.log)
    if not sweep_folder.is_sweep(log.parent):
      raise OSError(
        f"{str(log.parent)!r} is not the sweep's folder on this machine, so "
        "nothing of the run would be kept: give a --run_dir that all machines "
        "share"
      )
    config = pathlib.Path(self._folder.name, "config.json")
    config.write_text(task.config, "utf-8")
    return processes.TrainProcess(
      sweep_folder.SweepRun(0, task.seed, folder, log),
      [f"--config={config}"],
      setting={},
      resumes=task.resumes,
    )
