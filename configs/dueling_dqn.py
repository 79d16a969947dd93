"""Dueling DQN. Wang et al. 2016, "Dueling network architectures"."""

from slipway.configs import double_dqn, recipes

RECIPE = recipes.Recipe(
  {"network.dueling": True},  # equation 9
  # With DQN's 500,000 it learns more slowly; docs/learning.md.
  {"cartpole": {"replay.capacity": 50_000}},
  parent=double_dqn.RECIPE,  # section 4.2: "the DDQN algorithm"
)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
