"""CleanRL's dqn.py and ppo.py on a task: files of its PyPI package, unchanged.

The scripts report no progress, so this program observes their classes from
outside. It replaces dqn.py's layers of 120 and 84 units by the task's sizes;
those of ppo.py have the task's. Their gymnasium and gym have LunarLander-v2.
"""
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false

import importlib.util
import sys

import gym
import gymnasium
import numpy as np
import progress
import rollouts
import tasks
import torch
from torch.optim import optimizer as optimizers
from torch.utils import tensorboard

_FOR_EVER = 10**9


class _SilentWriter:
  """Replaces TensorBoard's writer; only reports the returns of episodes."""

  told: progress.Progress

  def __init__(self, unused_folder: str):
    pass

  def add_text(self, *unused) -> None:
    pass

  def add_scalar(self, name: str, value, unused_step) -> None:
    if name == "charts/episodic_return":
      self.told.add_return(float(np.squeeze(value)))


def _play(environment: str, network) -> list[float]:
  """Plays greedy episodes all at once.

  Args:
    environment: gymnasium id.
    network: values or logits of the actions from observations.
  """
  environments = gymnasium.vector.make(
    environment, progress.EPISODES, asynchronous=False
  )
  observations, _ = environments.reset(seed=1_000)
  returns = np.zeros(progress.EPISODES)
  going = np.ones(progress.EPISODES, bool)
  while going.any():
    with torch.no_grad():
      values = network(torch.Tensor(observations))
    observations, rewards, terminated, truncated, _ = environments.step(
      values.argmax(dim=1).numpy()
    )
    returns += rewards * going
    going &= ~(terminated | truncated)
  environments.close()
  return returns.tolist()


def _learn_dqn(told: progress.Progress, task: tasks.Task, seed: int) -> None:
  environment = task.environment.replace("-v3", "-v2")
  linear, (first, last) = torch.nn.Linear, task.hidden_sizes
  widths = {120: first, 84: last}
  torch.nn.Linear = lambda inputs, outputs: linear(
    int(widths.get(inputs, inputs)), int(widths.get(outputs, outputs))
  )
  scope = _make_scope("dqn")

  class Environments(gymnasium.vector.SyncVectorEnv):
    def step(self, actions):
      if told.evaluation_due(task.evaluation_period):
        told.evaluate(lambda: _play(environment, scope["q_network"]))
      told.env_steps += 1
      return super().step(actions)

  # The evaluation's own are made by `gymnasium.vector.make`, elsewhere.
  gymnasium.vector.SyncVectorEnv = Environments
  _run(
    scope,
    [
      f"--env-id={environment}",
      f"--seed={seed}",
      "--cuda=False",
      f"--total-timesteps={_FOR_EVER}",
      f"--learning-rate={task.learning_rate}",
      f"--buffer-size={task.capacity}",
      f"--gamma={task.discount}",
      "--target-network-frequency="
      f"{task.target_period * task.steps_per_update}",
      f"--batch-size={task.batch_size}",
      f"--end-e={task.epsilon_end}",
      f"--exploration-fraction={task.decay_steps / _FOR_EVER}",
      f"--learning-starts={task.min_size}",
      f"--train-frequency={task.steps_per_update}",
    ],
  )


def _learn_ppo(told: progress.Progress, task: rollouts.Task, seed: int) -> None:
  environment = task.environment.replace("Lander-v3", "Lander-v2")
  scope = _make_scope("ppo")

  class Environments(gym.vector.SyncVectorEnv):
    def step_async(self, actions):
      if told.evaluation_due(task.evaluation_period):
        told.evaluate(lambda: _play(environment, scope["agent"].actor))
      told.env_steps += self.num_envs
      super().step_async(actions)

  gym.vector.SyncVectorEnv = Environments
  _run(
    scope,
    [
      f"--env-id={environment}",
      f"--seed={seed}",
      "--cuda=False",
      f"--total-timesteps={_FOR_EVER}",
      f"--learning-rate={task.learning_rate}",
      # Over all steps, of which there is no end here.
      "--anneal-lr=False",
      f"--num-envs={task.environments}",
      f"--num-steps={task.unroll}",
      f"--gamma={task.discount}",
      f"--gae-lambda={task.gae_lambda}",
      f"--num-minibatches={task.batch_size // task.minibatch_size}",
      f"--update-epochs={task.epochs}",
      f"--clip-coef={task.clip}",
      f"--ent-coef={task.entropy_weight}",
      "--clip-vloss=False",
    ],
  )


def _make_scope(name: str) -> dict:
  return {"__name__": "__main__", "__file__": f"{name}.py"}


def _run(scope: dict, flags: list[str]) -> None:
  """Runs the script of a scope, whose names it leaves there."""
  file = scope["__file__"]
  module = f"cleanrl.{file.removesuffix('.py')}"
  sys.argv = [file, *flags]
  found = importlib.util.find_spec(module)
  source = found.loader.get_source(module)
  exec(compile(source, found.origin, "exec"), scope)


def main() -> None:
  """Learns until the target, or until the process is killed."""
  asked = progress.parse_arguments(("dqn", "ppo"))
  told = progress.Progress(asked.until)
  torch.set_num_threads(1)
  _SilentWriter.told = told
  tensorboard.SummaryWriter = _SilentWriter

  def count_update(*unused) -> None:
    told.updates += 1

  optimizers.register_optimizer_step_post_hook(count_update)
  if asked.variant == "ppo":
    _learn_ppo(told, rollouts.TASKS[asked.task], asked.seed)
  else:
    _learn_dqn(told, tasks.TASKS[asked.task], asked.seed)


if __name__ == "__main__":
  main()
