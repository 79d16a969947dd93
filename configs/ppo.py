"""PPO. Schulman et al. 2017, "Proximal policy optimization algorithms".

Workers collect each batch of rollouts with one version of the policy (mode
`sync`). The learner makes several passes over the batch and then discards it.
"""

from slipway.configs import policy_gradient, recipes, tasks

_PAPER = {
  "mode": "sync",
  "learner.policy_loss": "clipped",
  "learner.value_weight": 1.0,  # Stable-Baselines3: 0.5 of the whole error
  "learner.normalize_advantages": True,  # Stable-Baselines3
}

_IMAGES = policy_gradient.make_image_tasks(
  {
    "adder.unroll": 128,
    "learner.gae_lambda": 0.95,
    "learner.epochs": 4,
    "learner.minibatch_size": 256,
    "learner.learning_rate": 2.5e-4,
    "learner.clip": 0.1,
    "learner.entropy_weight": 0.01,
  },
  workers=1,
  environments=8,
)

_TASKS = {
  "cartpole": {  # RL Baselines3 Zoo's values for 100,000 steps
    **tasks.CARTPOLE,
    "topology.environments_per_worker": 8,
    "learner.batch_size": 8,  # rollouts: one per environment
    "adder.unroll": 32,
    "adder.discount": 0.98,
    "learner.gae_lambda": 0.8,
    "learner.epochs": 20,
    "learner.minibatch_size": 256,
    "learner.learning_rate": 1e-3,
    "learner.decay_steps": 390,  # batches: 100,000 environment steps
    "evaluation.period_steps": 10,  # batches
  },
  "lunarlander": {  # RL Baselines3 Zoo's values for 1,000,000 steps
    **tasks.LUNARLANDER,
    "topology.environments_per_worker": 16,
    "learner.batch_size": 16,
    "adder.unroll": 1_024,
    "adder.discount": 0.999,
    "learner.gae_lambda": 0.98,
    "learner.epochs": 4,
    "learner.minibatch_size": 64,
    "learner.learning_rate": 3e-4,
    "learner.entropy_weight": 0.01,
    "evaluation.period_s": 5.0,
    "evaluation.period_steps": 1,
  },
  # CleanRL's ppo_continuous_action, but with 8 environments, not 1. There, only
  # the step size falls over the run, and here the clip range, too.
  "halfcheetah": {
    **tasks.MUJOCO["halfcheetah"],
    "normalization.observations": True,
    "normalization.rewards": True,
    "topology.environments_per_worker": 8,
    "learner.batch_size": 8,
    "adder.unroll": 256,  # 2,048 steps per batch
    "learner.gae_lambda": 0.95,
    "learner.epochs": 10,
    "learner.minibatch_size": 64,
    "learner.learning_rate": 3e-4,
    "learner.value_clip": 0.2,
    "learner.value_weight": 0.5,
    "learner.decay_steps": 488,  # batches: 1,000,000 environment steps
    "evaluation.episodes": 5,
    "evaluation.period_s": 10.0,
    "evaluation.period_steps": 20,
  },
  # Stable-Baselines3's defaults, with the rollouts of its Atari values: 8
  # environments, 128 steps each.
  "generic": {
    **tasks.GENERIC,
    "topology.environments_per_worker": 8,
    "learner.batch_size": 8,
    "adder.unroll": 128,
    "learner.gae_lambda": 0.95,
    "learner.epochs": 10,
    "learner.minibatch_size": 128,
    "learner.learning_rate": 3e-4,
    "learner.entropy_weight": 0.01,  # Schulman et al. 2017, section 6.1: Atari
    "learner.value_weight": 0.5,
    "evaluation.period_s": 2.0,
    "evaluation.period_steps": 10,  # batches
  },
  **_IMAGES,
  # The learning rate of rlpyt's PPO, and its linear decay: Stooke and Abbeel
  # 2019 (https://arxiv.org/abs/1909.01500), whose PPO has the same epochs,
  # minibatches, clip and entropy weight.
  "pong": {
    **_IMAGES["pong"],
    "learner.learning_rate": 1e-3,
    "learner.decay_steps": 2_500,  # batches: 2,560,000 environment steps
    # An evaluation takes 15 s of a core, and the run's end takes three of them.
    "evaluation.period_s": 60.0,
  },
}

RECIPE = recipes.Recipe(_PAPER, _TASKS, family=policy_gradient.RECIPE)
PRESETS, get_config = RECIPE.presets, RECIPE.get_config
