"""TD3+BC. Fujimoto and Gu 2021, "A minimalist approach to offline RL".

TD3 on recorded episodes, whose policy also imitates the recorded actions.
"""

from slipway.configs import offline, recipes, td3

_PAPER = {
  **td3.RECIPE.paper,
  "learner.learning_rate": 3e-4,
  "learner.bc_weight": 1 / 2.5,  # section 5
}

RECIPE = recipes.Recipe(_PAPER, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
