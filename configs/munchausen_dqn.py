"""Munchausen DQN. Vieillard et al. 2020, "Munchausen reinforcement
learning".

The action's scaled log-probability is added to the reward.
"""

from slipway.configs import dqn, recipes

_TASKS = {
  "atari57": {  # `pong` has DQN's step size: a short run on one game
    "learner.learning_rate": 5e-5,  # appendix B
    "learner.adam_epsilon": 0.01 / 32,  # the same
  },
}

RECIPE = recipes.Recipe(
  {"learner.munchausen_scale": 0.9},  # alpha; section 4
  _TASKS,
  family=dqn.RECIPE,
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
