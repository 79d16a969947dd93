"""Stable-Baselines3's DQN and PPO on a task.

Variants `8_environments` and `1_environment` of DQN do the task's work; `zoo`
has the hyperparameters that RL Baselines3 Zoo (rl_zoo3 2.9.2,
hyperparameters/dqn.yml) has tuned for the task. For `ppo` the task's are the
Zoo's.
"""
# pyright: reportMissingImports=false

import ale_py
import gymnasium
import progress
import rollouts
import tasks
import torch
from stable_baselines3 import dqn, ppo
from stable_baselines3.common import (
  callbacks,
  env_util,
  evaluation,
  vec_env,
)

_FOR_EVER = 10**9

_ZOO = {
  "cartpole": {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1_000,
    "gamma": 0.99,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16 * 5e4 / _FOR_EVER,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [256, 256]},
  },
  "lunarlander": {
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "gamma": 0.99,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12 * 1e5 / _FOR_EVER,
    "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [256, 256]},
  },
}


def _make_environments(name: str, count: int, seed: int):
  """Makes the vector of the task's environments."""
  if name in rollouts.TASKS:
    return env_util.make_vec_env(rollouts.TASKS[name].environment, count, seed)
  task = tasks.TASKS[name]
  if name != "pong":
    return env_util.make_vec_env(task.environment, count, seed)
  gymnasium.register_envs(ale_py)
  return vec_env.VecFrameStack(
    env_util.make_atari_env(
      task.environment,
      count,
      seed,
      env_kwargs={"frameskip": 1, "repeat_action_probability": 0.0},
    ),
    4,
  )


def _numbers(name: str, count: int) -> dict:
  """Returns the task's values as arguments of Stable-Baselines3's DQN."""
  task = tasks.TASKS[name]
  numbers = {
    "learning_rate": task.learning_rate,
    "batch_size": task.batch_size,
    "buffer_size": task.capacity,
    "learning_starts": task.min_size,
    "gamma": task.discount,
    "target_update_interval": task.target_period * task.steps_per_update,
    # Steps of the vector, and updates after as many.
    "train_freq": max(1, task.steps_per_update // count),
    "gradient_steps": max(1, count // task.steps_per_update),
    "exploration_fraction": task.decay_steps / _FOR_EVER,
    "exploration_final_eps": task.epsilon_end,
  }
  if name != "pong":  # its CNN has a head of 512 by itself
    numbers["policy_kwargs"] = {"net_arch": list(task.hidden_sizes)}
  return numbers


class _ProgressCallback(callbacks.BaseCallback):
  """A callback that counts steps, and evaluates when it is due."""

  def __init__(self, told: progress.Progress, name: str, seed: int):
    super().__init__()
    self._told = told
    self._period = {**tasks.TASKS, **rollouts.TASKS}[name].evaluation_period
    self._others = _make_environments(name, progress.EPISODES, seed + 1_000)

  def _on_step(self) -> bool:
    self._told.env_steps = self.num_timesteps
    self._told.updates = self.model._n_updates
    for info in self.locals["infos"]:
      if "episode" in info:
        self._told.add_return(info["episode"]["r"])
    if self._told.evaluation_due(self._period):
      self._told.evaluate(self._play)
    return True

  def _play(self) -> list[float]:
    returns, _ = evaluation.evaluate_policy(
      self.model,
      self._others,
      n_eval_episodes=progress.EPISODES,
      return_episode_rewards=True,
    )
    return returns


def _make_dqn(asked) -> dqn.DQN:
  count = 8 if asked.variant == "8_environments" else 1
  numbers = (
    _ZOO[asked.task] if asked.variant == "zoo" else _numbers(asked.task, count)
  )
  return dqn.DQN(
    "CnnPolicy" if asked.task == "pong" else "MlpPolicy",
    _make_environments(asked.task, count, asked.seed),
    seed=asked.seed,
    device="cpu",
    **numbers,
  )


def _make_ppo(asked) -> ppo.PPO:
  task = rollouts.TASKS[asked.task]

  def falling(value: float):
    # Stable-Baselines3 gives the part of all steps that is left.
    return lambda left: value * task.remaining((1.0 - left) * _FOR_EVER)

  return ppo.PPO(
    "MlpPolicy",
    _make_environments(asked.task, task.environments, asked.seed),
    learning_rate=falling(task.learning_rate),
    n_steps=task.unroll,
    batch_size=task.minibatch_size,
    n_epochs=task.epochs,
    gamma=task.discount,
    gae_lambda=task.gae_lambda,
    clip_range=falling(task.clip),
    ent_coef=task.entropy_weight,
    policy_kwargs={"net_arch": list(task.hidden_sizes)},
    seed=asked.seed,
    device="cpu",
  )


def main() -> None:
  """Learns until the target, or until the process is killed."""
  asked = progress.parse_arguments(
    ("8_environments", "1_environment", "zoo", "ppo")
  )
  told = progress.Progress(asked.until)
  # For the small networks a second thread only costs.
  torch.set_num_threads(2 if asked.task == "pong" else 1)
  model = _make_ppo(asked) if asked.variant == "ppo" else _make_dqn(asked)
  model.learn(
    _FOR_EVER,
    callback=_ProgressCallback(told, asked.task, asked.seed),
    log_interval=_FOR_EVER,
  )


if __name__ == "__main__":
  main()
