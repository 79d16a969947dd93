"""Filming: films episodes of a run's policy while the run is active.

The evaluator only starts a process that plays the episode. So a video changes
no result of the run, and no evaluation waits for it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import ml_collections
from absl import logging

from slipway.agents import core, registry
from slipway.configs import base
from slipway.environments import factory, video
from slipway.launch.runs import best_variables, events, run_folder, user_modules
from slipway.replay.variables import variable_packing

_SEED = 2_000_000  # of the episode, as that of `slipway evaluate`
MAX_STEPS = 10_000  # environment steps after which a video ends
_PREFIX = "evaluation-version-"  # of the names of the videos
_KEPT = 20  # number of newest videos that are kept
_VARIABLES = {"CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}
_LAST_TIMEOUT_S = 3.0  # of a video in progress when the run ends


class Filmer:
  """Films an episode after each n-th evaluation, in a process of its own."""

  def __init__(
    self, config: ml_collections.ConfigDict, folder: run_folder.RunFolder
  ):
    """Films the first evaluation and each n-th, if the whole config says so."""
    self._folder, self._period = folder, config.evaluation.video_period
    self._left = 1  # evaluations until the next video
    self._process: subprocess.Popen | None = None

  def film(self, newest: variable_packing.VersionedVariables) -> None:
    """Begins a video of evaluated variables, if one is due.

    If the last one is still in progress, the next evaluation has a video.
    """
    self._left -= 1
    is_filming = self._process is not None and self._process.poll() is None
    if not self._period or self._left > 0 or is_filming:
      return
    self._left = self._period
    self._report_failure()
    path = self._folder.videos / f"{_PREFIX}{newest.version:08}.mp4"
    content = best_variables.to_bytes(newest.version, newest.variables)
    try:
      # A full disk drops the video: a retry would keep each file in memory.
      with (
        tempfile.TemporaryFile(dir=self._folder.videos) as variables,
        open(self._folder.logs / "videos", "ab") as log,
      ):
        variables.write(content)
        variables.seek(0)
        self._process = subprocess.Popen(
          # -P: a file of the working folder must not replace a library.
          [sys.executable, "-P", "-m", __name__, str(path), "/dev/stdin"],
          stdin=variables,
          stdout=log,
          stderr=log,
          env=os.environ | _VARIABLES,
        )
    except OSError as error:  # a full disk or memory must not end the run
      logging.warning("no video of version %d: %s", newest.version, error)

  def close(self) -> None:
    """Waits up to 3 s for a video in progress, and then drops it."""
    if self._process is None:
      return
    try:
      self._process.wait(_LAST_TIMEOUT_S)
    except subprocess.TimeoutExpired:
      self._process.kill()
      self._process.wait()
    self._report_failure()
    for path in self._folder.videos.glob(f".{_PREFIX}*"):
      shutil.rmtree(path, ignore_errors=True)

  def _report_failure(self) -> None:
    """Logs that the last video has failed, or was killed."""
    if self._process is not None and (status := self._process.returncode):
      reason = "was not finished" if status < 0 else "failed: see logs/videos"
      logging.warning("the last video %s", reason)


def make_act(actor: core.Actor) -> video.Act:
  """Returns the policy of an actor whose variables are loaded."""
  return lambda x: actor.act(x.observation, x.reward, x.first).action


def main(argv: list[str]) -> None:
  """Films an episode to a path in a run's videos/, by a file of variables."""
  path = pathlib.Path(argv[1])
  folder = run_folder.RunFolder(path.parent.parent)
  version, variables = best_variables.load(pathlib.Path(argv[2]))
  config = folder.read_config()
  user_modules.prefer_recorded(folder, config)
  spec = factory.make_spec(config.environment)
  actor = registry.make_builder(config.agent).make_greedy_actor(config, spec)
  actor.load(variables)
  environment = base.get_evaluation_environment(config)
  video.record(environment, make_act(actor), path, _SEED, MAX_STEPS)
  # Next to the run's own events, of which TensorBoard reads one file at a time.
  board = folder.events / "videos"
  board.mkdir(exist_ok=True)
  events.Events(board).add_gif("episode", video.to_gif(path), version)
  for files in (folder.videos.glob(f"{_PREFIX}*.mp4"), board.iterdir()):
    for old in sorted(files)[:-_KEPT]:
      old.unlink(missing_ok=True)


if __name__ == "__main__":
  os.nice(10)  # so that nodes have the processors first
  main(sys.argv)
