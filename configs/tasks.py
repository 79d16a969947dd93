"""Tasks: environments and end conditions that presets of all families share.

Each table has a task's environment, the torso for its observations, and the
return or the number of environment steps at which a run ends.
"""

from slipway.configs import recipes

# Values for a first try on an unknown task, for which nothing has been tuned:
# observations and rewards of any size, and evaluations that cost little however
# long they take. The environment stands for the user's own.
GENERIC: recipes.Values = {
  "normalization.observations": True,
  "normalization.rewards": True,
  "evaluation.episodes": 10,
  "evaluation.max_share": 0.05,
}

# Returns that end a run are gymnasium's reward thresholds, but for Pendulum.
CARTPOLE: recipes.Values = {
  "environment.name": "CartPole-v1",
  "limits.target_return": 475.0,
}
LUNARLANDER: recipes.Values = {
  "environment.name": "LunarLander-v3",
  "limits.target_return": 200.0,
}
CONTINUOUS_LUNARLANDER: recipes.Values = {
  **LUNARLANDER,
  "environment.kwargs.continuous": True,
}
BIPEDALWALKER: recipes.Values = {
  "environment.name": "BipedalWalker-v3",
  "limits.target_return": 300.0,
}
PENDULUM: recipes.Values = {
  "environment.name": "Pendulum-v1",
  # A policy that never swings the pendulum up has a lower return.
  "limits.target_return": -200.0,
}

# MuJoCo's tasks, by preset.
MUJOCO: dict[str, recipes.Values] = {
  preset: {"environment.name": name, "limits.environment_steps": 1_000_000}
  for preset, name in (
    ("halfcheetah", "HalfCheetah-v5"),
    ("hopper", "Hopper-v5"),
    ("walker2d", "Walker2d-v5"),
    ("ant", "Ant-v5"),
    ("humanoid", "Humanoid-v5"),
  )
}

# The DeepMind Control Suite. Rewards are in [0, 1], episodes have 1,000 steps:
# Tassa et al. 2018, section 2 (https://arxiv.org/abs/1801.00690).
DM_CONTROL: recipes.Values = {
  "environment.name": "shimmy:dm_control/{game}-v0",
  "environment.game": "cheetah-run",
  "limits.environment_steps": 1_000_000,
}

# MinAtar's Breakout: Young and Tian 2019, as far as no comment differs.
MINATAR: recipes.Values = {
  "environment.name": "slipway.environments.minatar:MinAtar/{game}-v1",
  "environment.game": "Breakout",
  "network.torso": "minatar_cnn",
  "network.hidden_sizes": (128,),  # section 4
  "limits.environment_steps": 1_000_000,  # section 4: 5,000,000
}

# Atari's games: Mnih et al. 2015, methods and table 1, as far as no comment
# differs.
ATARI: recipes.Values = {
  "environment.name": "ALE/{game}-v5",
  "environment.game": "Pong",
  # Machado et al. 2018 advise sticky actions; the papers had none.
  "environment.kwargs.repeat_action_probability": 0.0,
  "environment.kwargs.frameskip": 4,  # frames per action; table 1
  "environment.kwargs.noop_max": 30,  # no-ops at an episode's start; table 1
  "environment.reward_clip": 1.0,  # methods
  "adder.stacked_frames": 4,  # as ale_py's observations; methods
  # 5 minutes of play (methods), since a greedy policy may stall for ever.
  "environment.time_limit": 4_500,  # 18,000 frames
  "network.torso": "nature_cnn",
  "network.hidden_sizes": (512,),  # methods
  "limits.environment_steps": 10_000_000,  # 50,000,000
}
# The end of a run on Pong.
PONG_SOLVED: recipes.Values = {
  "limits.environment_steps": 0,
  "limits.target_return": 18.0,  # of at most 21
}
