"""Tasks: environments and end conditions that presets of all families share.

Each function sets a config's environment, the torso for its observations, and
the return or the number of environment steps at which a run ends.
"""

import ml_collections


def cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole-v1; the run ends at gymnasium's reward threshold, 475."""
  c.environment.name = "CartPole-v1"
  c.limits.target_return = 475.0


def lunarlander(c: ml_collections.ConfigDict) -> None:
  """Sets LunarLander-v3; the run ends at gymnasium's reward threshold, 200."""
  c.environment.name = "LunarLander-v3"
  c.limits.target_return = 200.0


def mujoco(c: ml_collections.ConfigDict, name: str) -> None:
  """Sets a MuJoCo task, such as 'Hopper-v5'; ends after 1,000,000 steps."""
  c.environment.name = name
  c.limits.environment_steps = 1_000_000


def dm_control(c: ml_collections.ConfigDict) -> None:
  """Sets a task of the DeepMind Control Suite; ends after 1,000,000 steps.

  `environment.game` is the task. Rewards are in [0, 1], episodes have 1,000
  steps: Tassa et al. 2018, section 2 (https://arxiv.org/abs/1801.00690).
  """
  c.environment.name = "shimmy:dm_control/{game}-v0"
  c.environment.game = "cheetah-run"
  c.limits.environment_steps = 1_000_000


def continuous_lunarlander(c: ml_collections.ConfigDict) -> None:
  """Sets LunarLander-v3 with continuous actions; solved at a return of 200."""
  lunarlander(c)
  c.environment.kwargs.continuous = True


def bipedalwalker(c: ml_collections.ConfigDict) -> None:
  """Sets BipedalWalker-v3; solved at gymnasium's reward threshold."""
  c.environment.name = "BipedalWalker-v3"
  c.limits.target_return = 300.0


def pendulum(c: ml_collections.ConfigDict) -> None:
  """Sets Pendulum-v1; the run ends at a mean return of -200.

  A policy that never swings the pendulum up has a lower return.
  """
  c.environment.name = "Pendulum-v1"
  c.limits.target_return = -200.0


def minatar(c: ml_collections.ConfigDict, game: str) -> None:
  """Sets a MinAtar game; the run ends after 1,000,000 environment steps.

  The values are those of Young and Tian 2019, as far as no comment differs.

  Args:
    c: config that is changed in place.
    game: name of the game, such as 'Breakout'.
  """
  c.environment.name = "slipway.environments.minatar:MinAtar/{game}-v1"
  c.environment.game = game
  c.network.torso = "minatar_cnn"
  c.network.hidden_sizes = (128,)  # section 4
  c.limits.environment_steps = 1_000_000  # section 4: 5,000,000


def atari(c: ml_collections.ConfigDict, game: str) -> None:
  """Sets an Atari game; the run ends after 10,000,000 environment steps.

  The values are those of Mnih et al. 2015, methods and table 1, as far as no
  comment differs.

  Args:
    c: config that is changed in place.
    game: name of the game, such as 'Pong'.
  """
  c.environment.name = "ALE/{game}-v5"
  c.environment.game = game
  # Machado et al. 2018 advise sticky actions; the papers had none.
  c.environment.kwargs.repeat_action_probability = 0.0
  c.environment.kwargs.frameskip = 4  # frames per action; table 1
  c.environment.kwargs.noop_max = 30  # no-ops at an episode's start; table 1
  c.environment.reward_clip = 1.0  # methods
  c.adder.stacked_frames = 4  # as ale_py's observations; methods
  # 5 minutes of play (methods), since a greedy policy may stall for ever.
  c.environment.time_limit = 4_500  # 18,000 frames
  c.network.torso = "nature_cnn"
  c.network.hidden_sizes = (512,)  # methods
  c.limits.environment_steps = 10_000_000  # 50,000,000
