"""A2C. Mnih et al. 2016, "Asynchronous methods for deep RL".

Returns span the whole rollout, and each batch gets one gradient step. In mode
`sync`, this is A2C. In mode `async`, workers collect while the trainer learns,
as in A3C, whose workers also compute the gradients.
"""

from slipway.configs import policy_gradient, recipes, tasks

_PAPER = {
  "mode": "sync",
  "learner.policy_loss": "policy_gradient",
}

_IMAGES = {
  "adder.unroll": 5,  # section 5.1
  "adder.discount": 0.99,  # section 5.1
  "learner.learning_rate": 7e-4,  # Stable-Baselines3's default
  "learner.entropy_weight": 0.01,  # section 5.2
}

_TASKS = {
  "cartpole": {
    **policy_gradient.CARTPOLE,
    "topology.environments_per_worker": 16,  # the paper's threads
    "learner.batch_size": 16,
    "adder.unroll": 20,  # section 5.1: 5
  },
  "lunarlander": {  # RL Baselines3 Zoo's values for 200,000 steps
    **tasks.LUNARLANDER,
    "topology.environments_per_worker": 8,
    "learner.batch_size": 8,
    "adder.unroll": 5,
    "adder.discount": 0.995,
    "learner.learning_rate": 8.3e-4,
    "learner.decay_steps": 5_000,  # batches: 200,000 environment steps
    "learner.entropy_weight": 1e-5,
    "learner.value_weight": 1.0,  # Stable-Baselines3: 0.5 of the whole error
    "evaluation.period_s": 5.0,
    "evaluation.period_steps": 500,  # batches
  },
  **policy_gradient.make_image_tasks(_IMAGES, workers=1, environments=16),
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=policy_gradient.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
