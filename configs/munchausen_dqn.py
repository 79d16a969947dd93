"""Munchausen DQN. Vieillard et al. 2020, "Munchausen reinforcement
learning".

The action's scaled log-probability is added to the reward.
"""

from slipway.configs import dqn, recipes

RECIPE = recipes.Recipe(
  {"learner.munchausen_scale": 0.9},  # alpha; section 4
  parent=dqn.RECIPE,
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
