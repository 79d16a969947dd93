"""IQN. Dabney et al. 2018, "Implicit quantile networks for distributional
reinforcement learning".
"""

from slipway.configs import dqn, recipes

_PAPER = {
  "network.head": "implicit_quantile",
  "network.quantiles": 8,  # N and N'; section 3.1 and figure 2
  "learner.huber_delta": 1.0,  # kappa; section 3
}

RECIPE = recipes.Recipe(_PAPER, parent=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
