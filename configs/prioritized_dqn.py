"""Prioritized DQN. Schaul et al. 2016, "Prioritized experience replay".

The paper's best agent is built on double DQN, and Reverb's prioritized selector
implements the paper's proportional variant. The paper divides the learning rate
by four, since it samples larger errors more often. Here it is kept, since the
steps of Adam do not grow with the errors.
"""

from slipway.configs import double_dqn, dqn, recipes

_TASKS = {
  # Workers compute the first priorities, of rewards as they are.
  "generic": {"normalization.rewards": False},
  "cartpole": {
    **dqn.WITHOUT_AVERAGE,  # Ape-X keeps its returns in this way, too
    # With DQN's 500,000, half of the seeds of Ape-X did not learn; with 50,000,
    # more of them fell back; docs/learning.md.
    "replay.capacity": 75_000,
  },
  # With DQN's 100,000, updates become small before it has learned to land: 173
  # at the end of one run.
  "lunarlander": {"learner.decay_steps": 200_000},  # as many environment steps
}

RECIPE = recipes.Recipe(
  {"replay.sampler": "prioritized"},
  _TASKS,
  parent=double_dqn.RECIPE,  # section 4: "we use double DQN"
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
