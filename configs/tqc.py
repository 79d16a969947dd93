"""TQC. Kuznetsov et al. 2020, "Controlling overestimation bias with truncated
mixture of continuous distributional quantile critics".

SAC whose critics learn quantiles of returns. Targets leave out the highest
quantiles of all target critics together. Continuous actions only.
"""

from slipway.configs import actor_critic, recipes, sac

_PAPER = {  # section 5
  "network.critics": 5,
  "network.critic_head": "quantile",
  "learner.policy_value": "mean",
}

_TASKS = {
  preset: sac.RECIPE.tasks.get(preset, {})
  for preset in actor_critic.RECIPE.presets
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=actor_critic.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
