"""RLPD. Ball et al. 2023, "Efficient online reinforcement learning with offline
data" (https://arxiv.org/abs/2302.02948).

SAC with half of each batch from recorded episodes, layer normalization in a
large ensemble of critics, and many updates per environment step. `slipway
record` and Minari write such episodes.
"""

from slipway.configs import actor_critic, recipes

_PAPER = {
  "dataset.ratio": 0.5,
  "network.layer_norm": "all",
  "network.critics": 10,
  "learner.target_critics": 2,  # 1 or 2, by task
  "learner.policy_value": "mean",
  # 20 updates per step, with 128 of 256 elements from the table.
  "replay.samples_per_insert": 20.0 * 128,
}

_TASKS = {
  "pendulum": {
    "learner.learning_rate": 1e-3,  # as SAC's
    "learner.batch_size": 128,
    # Four updates per step, with 64 elements from the table.
    "replay.samples_per_insert": 4.0 * 64,
    "replay.min_size": 400,
  },
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=actor_critic.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
