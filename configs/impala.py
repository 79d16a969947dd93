"""IMPALA. Espeholt et al. 2018, "Importance weighted actor-learner".

Workers collect the next batches while the trainer learns (mode `async`).
V-trace corrects for rollouts of older policies.
"""

from slipway.configs import policy_gradient, recipes

_PAPER = {
  "topology.workers": 2,
  "learner.advantage_estimator": "vtrace",
  "learner.policy_loss": "policy_gradient",
}

_IMAGES = {
  "adder.unroll": 20,  # table G.1
  "adder.discount": 0.99,  # table G.1
  "learner.learning_rate": 6e-4,  # table G.1
  "learner.entropy_weight": 0.01,  # table G.1
}

_TASKS = {
  "cartpole": {
    **policy_gradient.CARTPOLE,
    "topology.environments_per_worker": 8,
    "learner.batch_size": 16,  # table D.1: 32
    "adder.unroll": 20,  # table D.1: 100; 20 in section 5.1
  },
  **policy_gradient.make_image_tasks(_IMAGES, workers=2, environments=32),
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=policy_gradient.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
