"""DQfD. Hester et al. 2018, "Deep Q-learning from demonstrations"
(https://arxiv.org/abs/1704.03732).

Prioritized dueling double DQN, with a part of each batch from recorded
episodes, whose actions are learned by a large margin, too. `slipway record` and
Minari write such episodes.
"""

from slipway.configs import dqn, prioritized_dqn, recipes

_PAPER = {
  **prioritized_dqn.RECIPE.paper,
  "network.dueling": True,
  "adder.n_step": 10,  # section 5
  "learner.margin_weight": 1.0,  # the same
  # The paper's share follows from priorities.
  "dataset.ratio": 0.25,
}

_TASKS = {
  **prioritized_dqn.RECIPE.tasks,
  "cartpole": {
    **prioritized_dqn.RECIPE.tasks["cartpole"],
    "adder.n_step": 10,
    # An update per 8 steps, as DQN's, with three quarters from the table.
    "replay.samples_per_insert": 6.0,
  },
  # Items of ten steps have all 8 frames, so fewer fit into 24 GiB in `single`.
  "atari57": {"replay.capacity": 400_000},
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
