"""BCQ. Fujimoto et al. 2019, "Benchmarking batch deep RL algorithms".

Double DQN on recorded episodes, which chooses among the actions that are likely
in them. `slipway record` and Minari write such episodes.
"""

from slipway.configs import cql, dqn, recipes

_PAPER = {
  **cql.RECIPE.paper,
  "learner.cql_weight": 0.0,
  "network.bcq_threshold": 0.3,  # the authors' code
}

RECIPE = recipes.Recipe(_PAPER, cql.RECIPE.tasks, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
