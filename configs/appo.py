"""APPO. Petrenko et al. 2020, "Sample Factory", section 3.4.

PPO whose workers collect while the trainer learns; V-trace corrects for
rollouts of older policies.
"""

from slipway.configs import ppo, recipes

RECIPE = recipes.Recipe(
  {"mode": "async", "learner.advantage_estimator": "vtrace"},
  parent=ppo.RECIPE,
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
