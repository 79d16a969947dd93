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

_TASKS = {
  # The paper's, for rewards of about 1. Normalized ones are 30 times smaller.
  "generic": {"learner.advantage_temperature": 0.03},
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=offline.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
