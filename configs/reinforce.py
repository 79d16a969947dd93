"""REINFORCE with a learned baseline, on rollouts. Williams 1992, "Simple
statistical gradient-following algorithms".

The policy learns from returns up to the end of the episode, minus state values
as the baseline. Where a rollout ends before the episode does, or the episode is
truncated, the value of the last observation stands for the rewards after it.
"""

from slipway.configs import policy_gradient, recipes, tasks

_PAPER = {
  "mode": "sync",
  "learner.gae_lambda": 1.0,  # returns up to the end of episode or rollout
  "learner.policy_loss": "policy_gradient",
  "learner.normalize_advantages": True,
}

_TASKS = {
  "cartpole": {
    **tasks.CARTPOLE,
    "topology.environments_per_worker": 8,
    "learner.batch_size": 8,
    "adder.unroll": 512,  # an episode has at most 500 steps
    # With 2e-2, it meets the target sooner and loses it; docs/learning.md.
    "learner.learning_rate": 5e-3,
    "learner.decay_steps": 250,  # batches: 1,024,000 environment steps
    "evaluation.period_steps": 5,  # batches
  },
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=policy_gradient.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
