"""QR-DQN. Dabney et al. 2018, "Distributional reinforcement learning with
quantile regression".
"""

from slipway.configs import dqn, recipes

_PAPER = {
  "network.head": "quantile",
  "network.quantiles": 32,  # section 5: 200
  "learner.huber_delta": 1.0,  # kappa; section 5
}

_ATARI = {"network.quantiles": 200}  # section 5

_TASKS = {
  "pong": _ATARI,  # with DQN's step size: a short run on one game
  "atari57": {
    **_ATARI,
    "learner.learning_rate": 5e-5,  # section 5
    "learner.adam_epsilon": 0.01 / 32,  # the same
  },
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
