"""Discrete CQL. Kumar et al. 2020, "Conservative Q-learning for offline
reinforcement learning".

Double DQN on recorded episodes, which lowers the values of actions that were
not recorded. `slipway record` and Minari write such episodes.
"""

from slipway.configs import dqn, recipes

_PAPER = {
  "learner.double": True,
  "learner.cql_weight": 1.0,  # section 6: 1 with much data, 4 with little
  "adder.n_step": 1,
  "topology.workers": 0,
  "limits.trainer_steps": 50_000,
}

_TASKS = {
  "cartpole": {
    **dqn.WITHOUT_AVERAGE,
    "adder.n_step": 1,
    "learner.decay_steps": 50_000,
  },
  # The paper's is for rewards of about 1. Normalized ones are 30 times smaller.
  "generic": {"learner.cql_weight": 0.1},
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
