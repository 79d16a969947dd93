"""Rollouts: the tasks that all libraries learn on policy, as tasks.py's.

A test checks that they equal those of `configs/ppo.py`. This module imports the
standard library only, since it runs with each peer's packages.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Task:
  """Hyperparameters of PPO on one task; policy and values share no layer.

  Attributes:
    environment: gymnasium id.
    hidden_sizes: units of the layers of each MLP, with tanh between them.
    environments: number of environments.
    unroll: steps of each environment in a batch.
    epochs: passes over a batch.
    minibatch_size: steps of a gradient step.
    learning_rate: learning rate of Adam.
    discount: discount per step.
    gae_lambda: lambda of the advantages.
    clip: how far the ratio of probabilities may move.
    entropy_weight: weight of the entropy bonus.
    decay_steps: environment steps over which learning rate and clip fall
      linearly, to 5 %; 0: they stay.
    evaluation_period: environment steps between two greedy evaluations.
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

  @property
  def batch_size(self) -> int:
    """Environment steps of a batch."""
    return self.environments * self.unroll

  @property
  def updates_per_batch(self) -> int:
    """Gradient steps on a batch."""
    return self.epochs * self.batch_size // self.minibatch_size

  def remaining(self, env_steps: float) -> float:
    """Returns the factor of learning rate and clip after a number of steps."""
    if not self.decay_steps:
      return 1.0
    return max(0.05, 1.0 - env_steps / self.decay_steps)


TASKS = {
  "ppo_cartpole": Task(
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
  ),
  "ppo_lunarlander": Task(
    environment="LunarLander-v3",
    hidden_sizes=(64, 64),
    environments=16,
    unroll=1_024,
    epochs=4,
    minibatch_size=64,
    learning_rate=3e-4,
    discount=0.999,
    gae_lambda=0.98,
    clip=0.2,
    entropy_weight=0.01,
    decay_steps=0,
    evaluation_period=16_384,
  ),
  # For speed: workers collect the next batch during one gradient step.
  "appo_cartpole": Task(
    environment="CartPole-v1",
    hidden_sizes=(64, 64),
    environments=64,
    unroll=32,
    epochs=1,
    minibatch_size=2_048,
    learning_rate=1e-3,
    discount=0.98,
    gae_lambda=0.8,
    clip=0.2,
    entropy_weight=0.0,
    decay_steps=0,
    evaluation_period=0,
  ),
}
