"""Dueling DQN. Wang et al. 2016, "Dueling network architectures"."""

from slipway.configs import dqn, recipes

RECIPE = recipes.Recipe(
  {
    "learner.double": True,  # section 4.2: "the DDQN algorithm"
    "network.dueling": True,  # equation 9
  },
  # With DQN's 500,000 it learns more slowly; docs/learning.md.
  {"cartpole": {"replay.capacity": 50_000}},
  family=dqn.RECIPE,
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
