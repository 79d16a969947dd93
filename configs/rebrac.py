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

_TASKS = {
  # As in the paper. With normalized rewards, HalfCheetah had 1,215 in place of
  # 2,957, Hopper 317 in place of 449 (benchmarks/results/offline.md).
  "generic": {"normalization.rewards": False},
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
