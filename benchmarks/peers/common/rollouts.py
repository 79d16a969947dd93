"""Rollouts: the tasks that all libraries learn on-policy, by PPO.

A test checks that their values equal the presets of `configs/ppo.py`. This
module imports the standard library only, since it runs with each peer's
packages.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Task:
  """Hyperparameters of PPO on one task.

  Policy and state values have an MLP each, with tanh activations. For Pong they
  share a Nature CNN.

  Attributes:
    environment: gymnasium id.
    hidden_sizes: units of each MLP's hidden layers, or of the hidden layer
      after the CNN.
    environments: number of environments.
    unroll: environment steps per environment in a batch.
    epochs: passes over a batch.
    minibatch_size: environment steps per gradient step.
    learning_rate: learning rate of Adam.
    discount: discount per environment step.
    gae_lambda: lambda of generalized advantage estimation.
    clip: epsilon of PPO's clipped probability ratio.
    entropy_weight: weight of the entropy bonus.
    decay_steps: environment steps over which learning rate and clip decay
      linearly to 5 % of their values; 0: no decay.
    evaluation_period: environment steps between two greedy evaluations; 0: only
      speed is measured, without evaluations.
    value_clip: largest change of a state value in one update; 0: no limit.
  """

  environment: str
  hidden_sizes: tuple[int, ...]
  environments: int
  unroll: int
  epochs: int
  minibatch_size: int
  learning_rate: float
  discount: float
  gae_lambda: float
  clip: float
  entropy_weight: float
  decay_steps: int
  evaluation_period: int
  value_clip: float = 0.0

  @property
  def batch_size(self) -> int:
    """Environment steps per batch, of all environments."""
    return self.environments * self.unroll

  @property
  def updates_per_batch(self) -> int:
    """Gradient steps per batch."""
    return self.epochs * self.batch_size // self.minibatch_size

  def decay_factor(self, env_steps: float) -> float:
    """Returns the factor of learning rate and clip after `env_steps` steps.

    It falls linearly from 1 to 0.05, and is 1 for a task without decay.
    """
    if not self.decay_steps:
      return 1.0
    return max(0.05, 1.0 - env_steps / self.decay_steps)


_CARTPOLE = Task(
  environment="CartPole-v1",
  hidden_sizes=(64, 64),
  environments=8,
  unroll=32,
  epochs=20,
  minibatch_size=256,
  learning_rate=1e-3,
  discount=0.98,
  gae_lambda=0.8,
  clip=0.2,
  entropy_weight=0.0,
  decay_steps=99_840,
  evaluation_period=2_560,
)

TASKS = {
  "ppo_cartpole": _CARTPOLE,
  "ppo_lunarlander": dataclasses.replace(
    _CARTPOLE,
    environment="LunarLander-v3",
    environments=16,
    unroll=1_024,
    epochs=4,
    minibatch_size=64,
    learning_rate=3e-4,
    discount=0.999,
    gae_lambda=0.98,
    entropy_weight=0.01,
    decay_steps=0,
    evaluation_period=16_384,
  ),
  # Observations and rewards are normalized, and clipped to [-10, 10].
  "ppo_halfcheetah": dataclasses.replace(
    _CARTPOLE,
    environment="HalfCheetah-v5",
    unroll=256,
    epochs=10,
    minibatch_size=64,
    learning_rate=3e-4,
    discount=0.99,
    gae_lambda=0.95,
    value_clip=0.2,
    decay_steps=999_424,
    evaluation_period=0,
  ),
  # A step of Pong is 4 frames.
  "ppo_pong": dataclasses.replace(
    _CARTPOLE,
    environment="ALE/Pong-v5",
    hidden_sizes=(512,),
    unroll=128,
    epochs=4,
    learning_rate=1e-3,
    discount=0.99,
    gae_lambda=0.95,
    clip=0.1,
    entropy_weight=0.01,
    decay_steps=0,
    evaluation_period=0,
  ),
  # For speed: workers collect the next batch during one gradient step.
  "appo_cartpole": dataclasses.replace(
    _CARTPOLE,
    environments=64,
    epochs=1,
    minibatch_size=2_048,
    decay_steps=0,
    evaluation_period=0,
  ),
}
