"""SAC. Haarnoja et al. 2018, "Soft actor-critic algorithms and applications".

The learner adapts the temperature to a target entropy. The targets of the
critics use the lower value of two target networks. For discrete actions:
Christodoulou 2019, "Soft actor-critic for discrete action settings"
(https://arxiv.org/abs/1910.07207).
"""

from slipway.configs import actor_critic, recipes, tasks

_MUJOCO = {
  **actor_critic.EARLY_START,
  # From 1, the temperature needs 15,000 updates to fall to 0.01, which fits
  # rewards of about 1 per step; until then, policies learn to be random.
  "learner.temperature": 0.02,
}

_TASKS = {
  "pendulum": {
    # Half of the paper's: about as many updates until -200, which take less
    # time; docs/learning.md.
    "learner.batch_size": 128,
    "replay.samples_per_insert": 128.0,
    "learner.learning_rate": 1e-3,  # RL Baselines3 Zoo
  },
  "lunarlander": {  # RL Baselines3 Zoo
    "learner.learning_rate": 7.3e-4,
    "learner.tau": 0.01,
  },
  "bipedalwalker": {"learner.learning_rate": 7.3e-4},  # RL Baselines3 Zoo
  **dict.fromkeys(tasks.MUJOCO, _MUJOCO),
  "generic": {
    **tasks.GENERIC,
    **actor_critic.SMALL_REPLAY,
    "environment.name": "Pendulum-v1",
    "replay.capacity": 200_000,
    # LunarLander's, with an update per two environment steps.
    "replay.samples_per_insert": 128.0,
    "network.hidden_sizes": (128, 128),
    "adder.n_step": 5,
    "learner.learning_rate": 7.3e-4,
    "learner.tau": 0.01,
    # Independent actions don't climb a hill: MountainCarContinuous stayed at 0.
    "exploration.random_steps": 5_000,
    "exploration.random_repeats": 16,
  },
  "cartpole": {  # with discrete actions: Christodoulou 2019
    **tasks.CARTPOLE,
    **actor_critic.SMALL_REPLAY,
    "network.hidden_sizes": (64, 64),
    "learner.learning_rate": 1e-3,
  },
  "minatar_breakout": {  # whose actions are discrete, too
    **tasks.MINATAR,
    "topology.environments_per_worker": 4,
    "replay.capacity": 100_000,  # Young and Tian, section 4
    "replay.min_size": 5_000,  # the same
    "learner.batch_size": 64,
    # An update for four environment steps: Christodoulou 2019, appendix A.
    "replay.samples_per_insert": 16.0,
    "sync.environment_steps": 100,
    "evaluation.period_s": 10.0,
    "evaluation.period_steps": 2_500,
  },
}

# The family's values are those of the paper's table 1.
RECIPE = recipes.Recipe({}, _TASKS, family=actor_critic.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
