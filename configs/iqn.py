"""IQN. Dabney et al. 2018, "Implicit quantile networks for distributional
reinforcement learning".
"""

from slipway.configs import dqn, recipes

_PAPER = {
  "network.head": "implicit_quantile",
  "network.quantiles": 8,  # N and N'; section 3.1 and figure 2
  "learner.huber_delta": 1.0,  # kappa; section 3
}

_TASKS = {
  "atari57": {  # `pong` has DQN's step size: a short run on one game
    "learner.learning_rate": 5e-5,  # section 5: as QR-DQN
    "learner.adam_epsilon": 0.01 / 32,  # the same
  },
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
