"""CRR. Wang et al. 2020, "Critic regularized regression".

The policy imitates recorded actions whose values are above the mean value of
its own actions, which also are the critics' bootstrap.
"""

from slipway.configs import offline, recipes

_PAPER = {
  "learner.policy_loss": "advantage_weighted",
  "learner.action_samples": 4,  # Acme
}

_TASKS = {
  # The paper's, for rewards of about 1. Normalized ones are 30 times smaller.
  "generic": {"learner.advantage_temperature": 0.03},
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
