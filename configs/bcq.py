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

_TASKS = {"cartpole": cql.RECIPE.tasks["cartpole"]}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
