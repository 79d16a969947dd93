"""PPO. Schulman et al. 2017, "Proximal policy optimization algorithms".

Workers collect each batch of rollouts with one version of the policy (mode
`sync`). The learner makes several passes over the batch and then discards it.
"""

import ml_collections

from slipway.configs import policy_gradient, presets, tasks


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of PPO: mode `sync`, clipped ratios and GAE.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = policy_gradient.make_config()
  c.mode = "sync"
  c.network.activation = "tanh"  # Stable-Baselines3's default
  c.topology.workers = 1
  c.learner.policy_loss = "clipped"
  c.learner.value_weight = 1.0  # Stable-Baselines3: 0.5 of the whole error
  c.learner.normalize_advantages = True  # the same
  presets.apply(c, PRESETS, preset)
  return c


def _cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets RL Baselines3 Zoo's values for CartPole-v1 and 100,000 steps."""
  tasks.cartpole(c)
  c.topology.environments_per_worker = 8
  c.learner.batch_size = 8  # rollouts: one per environment
  c.adder.unroll = 32
  c.adder.discount = 0.98
  c.learner.gae_lambda = 0.8
  c.learner.epochs = 20
  c.learner.minibatch_size = 256
  c.learner.learning_rate = 1e-3
  c.learner.decay_steps = 390  # batches: 100,000 environment steps
  c.evaluation.period_steps = 10  # batches


def _lunarlander(c: ml_collections.ConfigDict) -> None:
  """Sets RL Baselines3 Zoo's values for LunarLander and 1,000,000 steps."""
  tasks.lunarlander(c)
  c.topology.environments_per_worker = 16
  c.learner.batch_size = 16
  c.adder.unroll = 1_024
  c.adder.discount = 0.999
  c.learner.gae_lambda = 0.98
  c.learner.epochs = 4
  c.learner.minibatch_size = 64
  c.learner.learning_rate = 3e-4
  c.learner.entropy_weight = 0.01
  c.evaluation.period_s = 5.0
  c.evaluation.period_steps = 1


def _halfcheetah(c: ml_collections.ConfigDict) -> None:
  """Sets CleanRL's ppo_continuous_action, but with 8 environments, not 1.

  There, only the step size falls over the run, and here the clip range, too.
  """
  tasks.mujoco(c, "HalfCheetah-v5")
  c.normalization.observations = True
  c.normalization.rewards = True
  c.topology.environments_per_worker = 8
  c.learner.batch_size = 8
  c.adder.unroll = 256  # 2,048 steps per batch
  c.adder.discount = 0.99
  c.learner.gae_lambda = 0.95
  c.learner.epochs = 10
  c.learner.minibatch_size = 64
  c.learner.learning_rate = 3e-4
  c.learner.value_clip = 0.2
  c.learner.value_weight = 0.5
  c.learner.decay_steps = 488  # batches: 1,000,000 environment steps
  c.evaluation.episodes = 5
  c.evaluation.period_s = 10.0
  c.evaluation.period_steps = 20


def _image_learner(c: ml_collections.ConfigDict) -> None:
  """Sets the network, rollouts and learner of Atari and MinAtar."""
  c.network.activation = "relu"
  c.network.shared = True
  c.adder.unroll = 128
  c.adder.discount = 0.99
  c.learner.gae_lambda = 0.95
  c.learner.epochs = 4
  c.learner.minibatch_size = 256
  c.learner.learning_rate = 2.5e-4
  c.learner.clip = 0.1
  c.learner.entropy_weight = 0.01


_IMAGE_PRESETS = policy_gradient.make_image_presets(
  _image_learner, environments=8
)


def _pong(c: ml_collections.ConfigDict) -> None:
  """Sets Pong, with the learning rate of rlpyt's PPO, and its linear decay.

  Stooke and Abbeel 2019 (https://arxiv.org/abs/1909.01500), whose PPO has the
  same epochs, minibatches, clip and entropy weight.
  """
  _IMAGE_PRESETS["pong"](c)
  c.learner.learning_rate = 1e-3
  c.learner.decay_steps = 2_500  # batches: 2,560,000 environment steps
  # An evaluation takes 15 s of a core, and the run's end takes three of them.
  c.evaluation.period_s = 60.0


# The presets of PPO and APPO, by name.
PRESETS: presets.Presets = {
  "cartpole": _cartpole,
  "lunarlander": _lunarlander,
  "halfcheetah": _halfcheetah,
  **_IMAGE_PRESETS,
  "pong": _pong,
}
