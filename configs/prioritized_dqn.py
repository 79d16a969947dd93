"""Prioritized DQN. Schaul et al. 2016, "Prioritized experience replay".

The paper's best agent is built on double DQN, and Reverb's prioritized selector
implements the paper's proportional variant. The paper divides the learning rate
by four, since it samples larger errors more often. Here it is kept, since the
steps of Adam do not grow with the errors.
"""

from slipway.configs import dqn, recipes

_PAPER = {
  "learner.double": True,  # section 4: "we use double DQN"
  "replay.sampler": "prioritized",
}

_TASKS = {
  # Workers compute the first priorities, of rewards as they are.
  "generic": {"normalization.rewards": False},
  "cartpole": {
    **dqn.WITHOUT_AVERAGE,  # as Ape-X
    "replay.capacity": 75_000,  # the same
  },
  # With DQN's 100,000, updates become small before it has learned to land: 173
  # at the end of one run.
  "lunarlander": {"learner.decay_steps": 200_000},  # as many environment steps
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
