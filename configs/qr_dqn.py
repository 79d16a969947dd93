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

RECIPE = recipes.Recipe(
  _PAPER, {"pong": _ATARI, "atari57": _ATARI}, parent=dqn.RECIPE
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
