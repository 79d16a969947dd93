"""V-MPO. Song et al. 2019, "V-MPO: on-policy maximum a posteriori".

The policy learns from the half of each batch with the highest advantages,
weighted by them. Bounds of the KL divergence limit each change of the policy.
"""

from slipway.configs import policy_gradient, recipes, tasks

_PAPER = {
  "mode": "sync",
  "learner.policy_loss": "vmpo",
}

_IMAGES = {
  "adder.unroll": 128,
  "learner.gae_lambda": 0.95,
  "learner.epochs": 4,  # passes until the workers get the new policy
  "learner.minibatch_size": 256,
  "learner.learning_rate": 2.5e-4,
}

_TASKS = {
  "cartpole": {
    **tasks.CARTPOLE,
    "topology.environments_per_worker": 8,
    "learner.batch_size": 8,
    "adder.unroll": 32,
    "adder.discount": 0.99,  # 0.98 falls back, as with A2C; docs/learning.md
    "learner.gae_lambda": 0.9,
    "learner.epochs": 10,  # passes until the workers get the new policy
    "learner.learning_rate": 1e-3,
    "learner.decay_steps": 780,  # batches: 200,000 environment steps
    "evaluation.period_steps": 10,  # batches
  },
  **policy_gradient.make_image_tasks(_IMAGES, workers=1, environments=8),
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=policy_gradient.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
