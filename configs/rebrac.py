"""ReBRAC. Tarasov et al. 2023, "Revisiting the minimalist approach to offline
reinforcement learning".

TD3+BC whose critics' targets are lower, too, where the next actions are not the
recorded ones. Critics have layer normalization.
"""

from slipway.configs import offline, recipes, td3_bc

_PAPER = {
  **td3_bc.RECIPE.paper,
  "network.layer_norm": "all",
  "network.hidden_sizes": (256, 256, 256),
  "learner.policy_value": "lowest",
  "learner.learning_rate": 1e-3,
  # The paper tunes both per task: 0.001 to 0.1, and 0 to 0.5.
  "learner.bc_weight": 0.1,
  "learner.target_bc_weight": 0.01,
}

RECIPE = recipes.Recipe(_PAPER, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
