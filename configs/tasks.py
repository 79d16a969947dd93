"""Tasks: the environments of the presets, which several families share.

Each function sets the environment, the torso that its observations need, and
the return at which a run stops.
"""

import ml_collections


def cartpole(c: ml_collections.ConfigDict) -> None:
  """CartPole-v1, until gymnasium's threshold."""
  c.environment.name = "CartPole-v1"
  c.limits.target_return = 475.0


def lunarlander(c: ml_collections.ConfigDict) -> None:
  """LunarLander-v3, until gymnasium's threshold."""
  c.environment.name = "LunarLander-v3"
  c.limits.target_return = 200.0


def halfcheetah(c: ml_collections.ConfigDict) -> None:
  """HalfCheetah-v5, for 1,000,000 environment steps."""
  c.environment.name = "HalfCheetah-v5"
  c.limits.environment_steps = 1_000_000


def pendulum(c: ml_collections.ConfigDict) -> None:
  """Pendulum-v1, until a return that only a policy that swings up has."""
  c.environment.name = "Pendulum-v1"
  c.limits.target_return = -200.0


def minatar(c: ml_collections.ConfigDict, game: str) -> None:
  """A game of MinAtar: Young and Tian 2019."""
  c.environment.name = "slipway.environments.minatar:MinAtar/{game}-v1"
  c.environment.game = game
  c.network.torso = "minatar_cnn"
  c.network.hidden_sizes = (128,)  # section 4
  c.limits.environment_steps = 1_000_000  # section 4: 5,000,000


def atari(c: ml_collections.ConfigDict, game: str) -> None:
  """A game of Atari: Mnih et al. 2015, methods and table 1."""
  c.environment.name = "ALE/{game}-v5"
  c.environment.game = game
  # Machado et al. 2018 advise sticky actions; the papers had none.
  c.environment.kwargs.repeat_action_probability = 0.0
  c.environment.kwargs.frameskip = 4  # frames an action; table 1
  c.environment.kwargs.noop_max = 30  # no-ops at a start; table 1
  c.environment.reward_clip = 1.0  # methods
  c.adder.stacked_frames = 4  # as ale_py's observations; methods
  # 5 minutes of play; methods: a greedy policy may stall for ever.
  c.environment.time_limit = 4_500  # 18,000 frames
  c.network.torso = "nature_cnn"
  c.network.hidden_sizes = (512,)  # methods
  c.limits.environment_steps = 10_000_000  # 50,000,000
