"""MinAtar: the MinAtar games as gymnasium environments with uint8 observations.

For example `environment.name=slipway.environments.minatar:MinAtar/Breakout-v1`.
Young and Tian 2019, "MinAtar: an Atari-inspired testbed for thorough and
reproducible reinforcement learning experiments"
(https://arxiv.org/abs/1903.03176). The package's own gymnasium classes return
bools, which `specs` would convert to floats, and use a plotting library.
"""

import colorsys
import importlib
import logging
import typing

import gymnasium
import numpy as np
from gymnasium import spaces

# The package's names of the MinAtar games, by their names in gymnasium ids.
GAMES = {
  "Asterix": "asterix",
  "Breakout": "breakout",
  "Freeway": "freeway",
  "Seaquest": "seaquest",
  "SpaceInvaders": "space_invaders",
}
# Height and width, in a rendered frame, of one of the game's 10 x 10 cells.
_CELL_PIXELS = 16


class MinAtar(gymnasium.Env):
  """A MinAtar game with the game's minimal set of actions.

  Observations are uint8 [10, 10, channels] of zeros and ones, with a channel
  for each kind of object. The seed of `reset` determines all random events.
  """

  metadata: typing.ClassVar = {"render_modes": ["rgb_array"], "render_fps": 15}

  def __init__(
    self,
    game: str,
    sticky_action_prob: float = 0.1,
    difficulty_ramping: bool = True,
    render_mode: str | None = None,
  ):
    """Makes the environment of a game.

    Args:
      sticky_action_prob: probability with which the last action is repeated.
      difficulty_ramping: whether the game becomes harder over time.
      render_mode: "rgb_array", or None.
    """
    self.render_mode = render_mode
    self._game = _import_minatar().Environment(
      GAMES[game], sticky_action_prob, difficulty_ramping
    )
    self._actions = self._game.minimal_action_set()
    self.action_space = spaces.Discrete(len(self._actions))
    self.observation_space = spaces.Box(
      0, 1, tuple(self._game.state_shape()), np.uint8
    )

  def reset(self, *, seed=None, options=None):
    """Starts a game; returns its first observation, and an empty info."""
    super().reset(seed=seed)
    if seed is not None:
      self._game.seed(int(self.np_random.integers(2**31)))
    # A sticky action must not repeat the last game's.
    self._game.last_action = 0
    self._game.reset()
    return self._observe(), {}

  def step(self, action):
    """Plays one frame of the game; games are never truncated."""
    reward, terminated = self._game.act(self._actions[int(action)])
    return self._observe(), float(reward), bool(terminated), False, {}

  def render(self):
    """Returns an image with one colour per channel, uint8 [160, 160, 3]."""
    board = self._game.state()
    channels = board.shape[2]
    colours = [(0.0, 0.0, 0.0)] + [
      colorsys.hsv_to_rgb(i / channels, 0.7, 1.0) for i in range(channels)
    ]
    top = (board * np.arange(1, channels + 1)).max(axis=2)
    picture = (255 * np.array(colours)[top]).astype(np.uint8)
    return picture.repeat(_CELL_PIXELS, axis=0).repeat(_CELL_PIXELS, axis=1)

  def _observe(self) -> np.ndarray:
    """Returns the observation, uint8 [10, 10, channels]."""
    return self._game.state().astype(np.uint8)


def _import_minatar():
  """Returns the package `minatar`, imported without its log messages."""
  disabled = logging.root.manager.disable
  logging.disable(logging.WARNING)
  try:
    return importlib.import_module("minatar")
  finally:
    logging.disable(disabled)


for _name in GAMES:
  gymnasium.register(
    f"MinAtar/{_name}-v1", f"{__name__}:MinAtar", kwargs={"game": _name}
  )
