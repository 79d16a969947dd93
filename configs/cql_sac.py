"""CQL. Kumar et al. 2020, "Conservative Q-learning for offline RL".

SAC on recorded episodes, which lowers the values of actions that were not
recorded. `cql` is for discrete actions.
"""

from slipway.configs import offline, recipes

_PAPER = {
  "learner.cql_weight": 5.0,  # the authors' code for MuJoCo's tasks
  "learner.policy_learning_rate": 1e-4,  # the same; the critics' is 3e-4
  # Of 21 actions each; the authors' code: 256, with a fifth of the updates per
  # second and no better policy in the same time.
  "learner.batch_size": 64,
}

RECIPE = recipes.Recipe(_PAPER, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
