"""The command `slipway play`, which shows the newest policy of a run."""

import itertools
import pathlib
import sys
from collections.abc import Sequence

import ml_collections
import numpy as np

from slipway.configs import base
from slipway.environments import video
from slipway.launch.api import policy as policy_lib
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import run_config
from slipway.launch.commands import evaluate
from slipway.launch.display import window as window_lib
from slipway.launch.nodes import filming
from slipway.launch.runs import run_folder, snapshot_store

# Text that begins the help.
_USAGE = (
  "Shows episodes of a run's policy in a window, or writes one to a file. "
  "While the run is active, its newest snapshot plays each episode.\n\n"
  "  slipway play runs/first\n  slipway play runs/first --video"
)


def main(argv: Sequence[str]) -> int:
  """Plays episodes until the window is closed, or films one.

  Returns:
    Exit status: 0; 1 if the environment failed; 2 if a flag is invalid, there
    is nothing to play, or this machine has no display.
  """
  return evaluate.run_command("play", lambda: _play(argv))


def define_flags() -> flags_lib.Flags:
  """Returns the flags of `slipway play`, before parsing."""
  flags = flags_lib.Flags()
  flags.add_run("Folder of the run, runs/<name>; a word without --run will do.")
  flags.add_bool(
    "video",
    False,
    "Write one episode to an MP4 file in the run's folder videos/, without a "
    "window.",
  )
  flags.add_integer(
    "episodes",
    None,
    "Number of episodes after which the window is closed. Default: no limit.",
    1,
    10**9,
  )
  flags.add_policy()
  flags.add_source("latest")
  flags.add_trust()
  return flags


def _play(argv: Sequence[str]) -> int:
  """Plays the episodes; returns the exit status."""
  flags = define_flags()
  line = flags.split(argv)
  if "run" not in dict(line.own):
    argv = [f"--run={x}" if x in line.words[:1] else x for x in argv]
  flags.parse(argv, _USAGE)
  if flags.video and flags.episodes:
    raise ValueError(
      f"--episodes={flags.episodes} is for the window, and --video films one "
      "episode, so it would have no effect: leave it out"
    )
  evaluate.check_playable(flags.run, flags.trust)
  if flags.video:
    print(_film(flags))
  else:
    _show(flags)
  return 0


def _film(flags: flags_lib.Flags) -> str:
  """Films an episode; returns a line about the video."""
  config = run_config.read(flags.run, flags.trust)
  policy = _load(flags, _find_newest(flags, config))
  folder = run_folder.RunFolder(flags.run)
  path = folder.videos / f"version-{policy.version}.mp4"
  episode_return = filming.record(policy.config, policy.actor, path, flags.seed)
  return f"video of an episode with return {episode_return:.2f}: {path}"


def _show(flags: flags_lib.Flags) -> None:
  """Plays episodes in a window, each by the newest policy."""
  window = window_lib.Window(str(flags.run))
  config = run_config.read(flags.run, flags.trust)
  environment = base.get_evaluation_environment(config)
  player = video.Player(environment, flags.seed)
  policy, played, is_open = None, None, True

  def show(frame: np.ndarray) -> bool:
    nonlocal is_open
    is_open = window.show(frame, player.frames_per_second)
    return is_open

  try:
    for episode in itertools.count(1):
      newest = _find_newest(flags, config)
      if policy is None or newest != played:
        policy, played = _load(flags, newest), newest
      episode_return = player.play(
        filming.make_act(policy.actor), show, filming.MAX_STEPS
      )
      if not is_open:
        return
      print(
        f"episode {episode}, version {policy.version}: return "
        f"{episode_return:.2f}",
        flush=True,
      )
      if episode == flags.episodes:
        return
  finally:
    player.close()
    window.close()


def _load(
  flags: flags_lib.Flags, newest: pathlib.Path | None
) -> policy_lib.Policy:
  """Loads the policy; that of the best evaluation before the first snapshot."""
  is_first = flags.which == "latest" and newest is None
  which = "best" if is_first else flags.which
  return policy_lib.load(flags.run, which, flags.trust, flags.policy)


def _find_newest(
  flags: flags_lib.Flags, config: ml_collections.ConfigDict
) -> pathlib.Path | None:
  """Returns the folder of the run's newest snapshot, or None without one."""
  folder = run_folder.RunFolder(flags.run)
  newest = snapshot_store.open_store(config, folder).newest()
  return None if newest is None else newest.path


if __name__ == "__main__":
  sys.exit(main(sys.argv))
