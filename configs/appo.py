"""APPO. Petrenko et al. 2020, "Sample Factory", section 3.4.

PPO whose workers collect while the trainer learns; V-trace corrects for
rollouts of older policies.
"""

from slipway.configs import policy_gradient, ppo, recipes

_PAPER = {
  "learner.advantage_estimator": "vtrace",
  "learner.policy_loss": "clipped",  # as PPO, with all that follows
  "learner.value_weight": 1.0,
  "learner.normalize_advantages": True,
}

RECIPE = recipes.Recipe(_PAPER, ppo.RECIPE.tasks, family=policy_gradient.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
