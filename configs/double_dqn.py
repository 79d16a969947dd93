"""Double DQN. van Hasselt et al. 2016, "Deep reinforcement learning with
double Q-learning", equation 4.

The online network selects the action of the bootstrap, and the target network
evaluates that action.
"""

from slipway.configs import dqn, recipes

RECIPE = recipes.Recipe({"learner.double": True}, family=dqn.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
