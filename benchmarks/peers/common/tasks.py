"""Tasks: the tasks that all libraries learn off-policy, by DQN.

A test checks that their values equal the presets of `configs/dqn.py`, except
for Pong's replay and LunarLander's epsilons. This module imports the standard
library only, since it runs with each peer's packages.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Task:
  """Hyperparameters of DQN on one task.

  Attributes:
    environment: gymnasium id.
    hidden_sizes: units of the MLP's hidden layers; for Pong, of the hidden
      layer after the CNN.
    batch_size: transitions per update.
    learning_rate: learning rate of Adam.
    capacity: transitions in the full replay.
    min_size: transitions in the replay before the first update.
    target_period: updates between two copies to the target network.
    epsilon_end: final probability of a random action; the initial one is 1.
    decay_steps: environment steps over which epsilon decays linearly.
    steps_per_update: environment steps per update; a step of Pong is 4 frames.
    evaluation_period: environment steps between two greedy evaluations.
    discount: discount per environment step.
  """

  environment: str
  hidden_sizes: tuple[int, ...]
  batch_size: int
  learning_rate: float
  capacity: int
  min_size: int
  target_period: int
  epsilon_end: float
  decay_steps: int
  steps_per_update: int
  evaluation_period: int
  discount: float = 0.99


TASKS = {
  "cartpole": Task(
    environment="CartPole-v1",
    hidden_sizes=(64, 64),
    batch_size=64,
    learning_rate=2e-3,
    capacity=500_000,
    min_size=1_000,
    target_period=100,
    epsilon_end=0.05,
    decay_steps=20_000,
    steps_per_update=8,
    evaluation_period=2_000,
    discount=0.995,
  ),
  "lunarlander": Task(
    environment="LunarLander-v3",
    hidden_sizes=(256, 256),
    batch_size=128,
    learning_rate=6.3e-4,
    capacity=50_000,
    min_size=1_000,
    target_period=250,
    epsilon_end=0.1,  # RL Baselines3 Zoo; the preset has a ladder of epsilons
    decay_steps=12_000,  # the same
    steps_per_update=1,
    evaluation_period=10_000,
  ),
  "pong": Task(
    environment="ALE/Pong-v5",
    hidden_sizes=(512,),
    batch_size=32,
    learning_rate=1e-4,
    capacity=20_000,  # the preset's 100,000 are never reached here
    min_size=1_000,  # the preset: 10,000, before which nothing is learned
    target_period=500,
    epsilon_end=0.02,
    decay_steps=200_000,
    steps_per_update=4,
    evaluation_period=50_000,
  ),
}
