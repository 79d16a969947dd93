"""Filming: films episodes of a run's policy while the run is active.

The evaluator only starts a process that plays the episode. So a video changes
no result of the run, and no evaluation waits for it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

import ml_collections
from absl import logging

from slipway.agents import core, registry
from slipway.configs import base
from slipway.environments import factory, video
from slipway.launch.runs import best_variables, run_folder, user_modules
from slipway.replay.variables import variable_packing

_SEED = 2_000_000  # of the episode, as that of `slipway evaluate`
MAX_STEPS = 10_000  # environment steps after which a video ends
_PREFIX = "evaluation-version-"  # of the names of the videos, as of their files
_KEPT = 20  # number of newest videos that are kept
_NICENESS = 10  # of the process, so that nodes have the processors first
# Seconds that the last video may still take when the run ends.
_LAST_TIMEOUT_S = 3.0
# The process uses one thread and no GPU.
_VARIABLES = {
  "CUDA_VISIBLE_DEVICES": "-1",
  "OMP_NUM_THREADS": "1",
  "TF_NUM_INTRAOP_THREADS": "1",
}


class Filmer:
  """Films an episode after each n-th evaluation, in a process of its own."""

  def __init__(
    self, config: ml_collections.ConfigDict, folder: run_folder.RunFolder
  ):
    """Films the first evaluation and each n-th after it, if the config says so.

    Args:
      config: the whole config.
      folder: the run's folder, which gets the videos.
    """
    self._folder, self._period = folder, config.evaluation.video_period
    self._left = 1  # evaluations until the next video
    self._process: subprocess.Popen | None = None

  @property
  def is_filming(self) -> bool:
    """Whether a video is in progress."""
    return self._process is not None and self._process.poll() is None

  def film(self, newest: variable_packing.VersionedVariables) -> None:
    """Begins a video of evaluated variables, if one is due.

    If the last one is still in progress, the next evaluation has a video.
    """
    self._left -= 1
    if not self._period or self._left > 0 or self.is_filming:
      return
    self._left = self._period
    path = self._folder.videos / f"{_PREFIX}{newest.version:08}.npz"
    log = self._folder.logs / "videos"
    if self._process is not None and self._process.returncode:
      logging.warning("the last video failed: %s has the error", log)
    try:
      self._remove_remains()
      # A full disk drops the video: a retry would keep each file in memory.
      path.write_bytes(
        best_variables.to_bytes(newest.version, newest.variables)
      )
      with open(log, "ab") as output:
        self._process = subprocess.Popen(
          # -P: a file of the working folder must not replace a library.
          [sys.executable, "-P", "-m", __name__, str(path)],
          stdin=subprocess.DEVNULL,
          stdout=output,
          stderr=output,
          env=os.environ | _VARIABLES,
        )
    except OSError as error:  # a full disk or memory must not end the run
      logging.warning("no video of version %d: %s", newest.version, error)

  def close(self) -> None:
    """Waits up to 3 s for a video in progress, and then drops it."""
    if self._process is not None:
      try:
        self._process.wait(_LAST_TIMEOUT_S)
      except subprocess.TimeoutExpired:
        self._process.kill()
        self._process.wait()
    self._remove_remains()

  def _remove_remains(self) -> None:
    """Removes the files of videos whose process was killed or crashed."""
    for path in self._folder.videos.glob(f"{_PREFIX}*.npz"):
      path.unlink(missing_ok=True)
    for path in self._folder.videos.glob(f".{_PREFIX}*"):
      shutil.rmtree(path, ignore_errors=True)


def make_act(actor: core.Actor) -> video.Act:
  """Returns the policy of an actor whose variables are loaded."""
  return lambda x: actor.act(x.observation, x.reward, x.first).action


def record(
  config: ml_collections.ConfigDict,
  actor: core.Actor,
  path: pathlib.Path,
  seed: int,
) -> float:
  """Films an episode of evaluations; see `video.record`."""
  environment = base.get_evaluation_environment(config)
  return video.record(environment, make_act(actor), path, seed, MAX_STEPS)


def main(argv: Sequence[str]) -> None:
  """Films an episode by the variables in a file, which is removed.

  Args:
    argv: the program's name, and the path of the file, in the folder videos/ of
      a run.
  """
  path = pathlib.Path(argv[1])
  folder = run_folder.RunFolder(path.parent.parent)
  _, variables = best_variables.load(path)
  path.unlink()
  config = folder.read_config()
  user_modules.prefer_recorded(folder, config)
  environment = factory.make(config.environment, num_envs=1, seed=0)
  environment.close()
  builder = registry.make_builder(config.agent)
  actor = builder.make_greedy_actor(config, environment.spec)
  actor.load(variables)
  record(config, actor, path.with_suffix(".mp4"), _SEED)
  for old in sorted(folder.videos.glob(f"{_PREFIX}*.mp4"))[:-_KEPT]:
    old.unlink(missing_ok=True)


if __name__ == "__main__":
  os.nice(_NICENESS)
  main(sys.argv)
