"""DDPG. Lillicrap et al. 2016, "Continuous control with deep RL".

A deterministic policy climbs the gradient of one critic. Both have target
networks, which follow them slowly. Noise on the actions explores.
"""

from slipway.configs import actor_critic, recipes

_PAPER = {
  "network.critics": 1,
  "learner.policy_loss": "deterministic",
  "learner.policy_value": "first",
  "learner.learning_rate": 1e-3,  # RL Baselines3 Zoo
}

RECIPE = recipes.Recipe(_PAPER, family=actor_critic.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
