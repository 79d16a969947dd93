"""C51. Bellemare et al. 2017, "A distributional perspective on reinforcement
learning".
"""

from slipway.configs import dqn, recipes

_ATARI = {
  "learner.learning_rate": 2.5e-4,  # section 5
  "learner.adam_epsilon": 0.01 / 32,  # the same
}

_TASKS = {
  "minatar_breakout": {
    "learner.target_update_period": 250,  # 1,000 steps, as Young and Tian's
    "learner.adam_epsilon": 0.01 / 32,  # section 5
  },
  "pong": _ATARI,
  "atari57": _ATARI,
}

RECIPE = recipes.Recipe(
  {"network.head": "categorical"}, _TASKS, family=dqn.RECIPE
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
