"""CRR. Wang et al. 2020, "Critic regularized regression".

The policy imitates recorded actions whose values are above the mean value of
its own actions, which also are the critics' bootstrap.
"""

from slipway.configs import iql, offline, recipes

_PAPER = {
  "learner.policy_loss": "advantage_weighted",
  "learner.action_samples": 4,  # Acme
}

RECIPE = recipes.Recipe(_PAPER, iql.RECIPE.tasks, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
