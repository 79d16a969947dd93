"""IQL. Kostrikov et al. 2021, "Offline RL with implicit Q-learning".

State values learn an expectile of the critics' values of recorded actions, and
are the critics' bootstrap. The policy imitates actions with a high advantage.
"""

from slipway.configs import offline, recipes

_PAPER = {  # section 5, and the authors' code
  "learner.policy_loss": "advantage_weighted",
  "learner.critic_target": "expectile",
  "learner.expectile": 0.7,
  "learner.advantage_temperature": 1 / 3,
  "learner.max_weight": 100.0,
}

RECIPE = recipes.Recipe(_PAPER, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
