"""The command `slipway play`, which shows the newest policy of a run."""

from collections.abc import Sequence

import numpy as np

from slipway.configs import base
from slipway.environments import user_code, video
from slipway.launch.api import policy as policy_lib
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import run_config
from slipway.launch.commands import evaluate
from slipway.launch.display import window as window_lib
from slipway.launch.nodes import filming
from slipway.launch.runs import run_folder, snapshot_store

# Text that begins the help.
_USAGE = (
  "Shows episodes of a run's policy in a window, until it is closed, or writes "
  "one to a file. While the run is active, its newest snapshot plays each "
  "episode.\n\n  slipway play runs/first\n  slipway play runs/first --video"
)


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> None:
  """Plays episodes until the window is closed, or films one.

  Raises:
    ValueError: there is nothing to play, no display, or a flag is invalid.
    UserCodeError: the environment failed.
  """
  flags = flags_lib.Flags()
  flags.add_bool("video", False, "Write one episode to videos/ of the run.")
  flags.add_policy()
  flags.add_source("latest")
  flags.add_trust()
  run = flags.parse_run(argv, _USAGE)
  evaluate.check_playable(run, flags.trust)
  if not flags.video:
    _show(run, flags)
    return
  policy = _load(run, flags)
  path = run_folder.RunFolder(run).videos / f"version-{policy.version}.mp4"
  environment = base.get_evaluation_environment(policy.config)
  act, steps = filming.make_act(policy.actor), filming.MAX_STEPS
  played = video.record(environment, act, path, flags.seed, steps)
  print(f"video of {_describe(*played)}: {path}")


def _show(run: str, flags: flags_lib.Flags) -> None:
  """Plays episodes in a window, each by the newest policy."""
  window, is_open = window_lib.Window(), True
  policy = _load(run, flags)
  environment = base.get_evaluation_environment(policy.config)
  player = video.Player(environment, flags.seed)

  def show(frame: np.ndarray) -> bool:
    nonlocal is_open
    is_open = window.show(frame, player.frames_per_second)
    return is_open

  try:
    while is_open:
      act = filming.make_act(policy.actor)
      played = player.play(act, show, filming.MAX_STEPS)
      if is_open:
        print(f"version {policy.version}: {_describe(*played)}", flush=True)
        policy = _load(run, flags)
  finally:
    player.close()


def _load(run: str, flags: flags_lib.Flags) -> policy_lib.Policy:
  """Loads the policy; that of the best evaluation before the first snapshot."""
  config = run_config.read(run, flags.trust)
  store = snapshot_store.open_store(config, run_folder.RunFolder(run))
  is_first = flags.which == "latest" and store.newest() is None
  which = "best" if is_first else flags.which
  return policy_lib.load(run, which, flags.trust, flags.policy)


def _describe(episode_return: float, has_ended: bool) -> str:
  """Returns text about an episode."""
  part = "" if has_ended else f"the first {filming.MAX_STEPS:,} steps of "
  return f"{part}an episode with return {episode_return:.2f}"
