"""D4PG. Barth-Maron et al. 2018, "Distributed distributional DDPG".

DDPG with a critic that learns the distribution of returns, n-step returns,
prioritized replay, and several workers.
"""

from slipway.configs import actor_critic, recipes, tasks

_PAPER = {
  "network.critics": 1,
  "network.critic_head": "categorical",
  "network.layer_norm": "first",  # Acme
  "learner.policy_loss": "deterministic",
  "learner.policy_value": "first",
  "adder.n_step": 5,  # section 4
  "replay.sampler": "prioritized",
  "exploration.noise_std": 0.3,  # section 4
  "topology.workers": 2,
}

# Lowest and highest discounted return of a task, by preset: with a discount of
# 0.99, some 100 of its lowest and highest rewards.
_RETURNS = {
  "pendulum": (-1_600.0, 0.0),  # rewards from -16 to 0
  "lunarlander": (-300.0, 300.0),
  "bipedalwalker": (-150.0, 100.0),
  "halfcheetah": (-200.0, 1_500.0),  # rewards of up to 15
  "hopper": (-50.0, 450.0),
  "walker2d": (-100.0, 650.0),
  "ant": (-200.0, 750.0),
  "humanoid": (-100.0, 1_000.0),
  "dm_control": (0.0, 100.0),  # rewards from 0 to 1
}

_MUJOCO = {
  **actor_critic.EARLY_START,
  # 5 in the paper, with which returns rise half as fast; docs/learning.md.
  "adder.n_step": 1,
}

_TASKS = {
  preset: {
    "network.lowest_return": lowest,
    "network.highest_return": highest,
    **(_MUJOCO if preset in tasks.MUJOCO else {}),
    **({"learner.learning_rate": 1e-3} if preset == "pendulum" else {}),
  }
  for preset, (lowest, highest) in _RETURNS.items()
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=actor_critic.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
