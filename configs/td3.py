"""TD3. Fujimoto et al. 2018, "Addressing function approximation error".

DDPG with three changes: targets use the lower value of two critics and noisy
next actions, and the policy learns half as often as the critics.
"""

from slipway.configs import actor_critic, recipes

_PAPER = {  # section 6.1
  "network.critics": 2,
  "learner.policy_loss": "deterministic",  # as DDPG, with the next two
  "learner.policy_value": "first",
  "learner.learning_rate": 1e-3,
  "learner.policy_period": 2,
  "learner.target_update_period": 2,
  "learner.target_noise": 0.2,
  "learner.target_noise_clip": 0.5,
}

RECIPE = recipes.Recipe(_PAPER, family=actor_critic.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
