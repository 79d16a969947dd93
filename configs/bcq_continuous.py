"""BCQ. Fujimoto et al. 2019, "Off-policy deep reinforcement learning without
exploration" (https://arxiv.org/abs/1812.02900).

On recorded episodes, of which a variational autoencoder generates similar
actions. The policy takes those with the highest values.
"""

from slipway.configs import offline, recipes

_PAPER = {  # the appendix, and the authors' code
  "learner.policy_loss": "batch_constrained",
  "learner.action_samples": 10,
  "learner.policy_value": "first",
  "learner.learning_rate": 1e-3,
}

RECIPE = recipes.Recipe(_PAPER, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
