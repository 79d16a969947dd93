"""CleanRL's dqn.py on a task: the file of its PyPI package, unchanged.

The script uses one environment and reports no progress, so this program
observes its classes from outside, and replaces its layers of 120 and 84 units
by the task's sizes. Its gymnasium has LunarLander-v2.
"""
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false

import importlib.util
import sys

import gymnasium
import numpy as np
import progress
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


def _play(environment: str, scope: dict) -> list[float]:
  """Plays greedy episodes with the script's network, all at once."""
  environments = gymnasium.vector.make(
    environment, progress.EPISODES, asynchronous=False
  )
  observations, _ = environments.reset(seed=1_000)
  returns = np.zeros(progress.EPISODES)
  going = np.ones(progress.EPISODES, bool)
  while going.any():
    with torch.no_grad():
      values = scope["q_network"](torch.Tensor(observations))
    observations, rewards, terminated, truncated, _ = environments.step(
      values.argmax(dim=1).numpy()
    )
    returns += rewards * going
    going &= ~(terminated | truncated)
  environments.close()
  return returns.tolist()


def main() -> None:
  """Learns until the target, or until the process is killed."""
  asked = progress.parse_arguments(("default",))
  task = tasks.TASKS[asked.task]
  environment = task.environment.replace("-v3", "-v2")
  told = progress.Progress(asked.until)
  torch.set_num_threads(1)

  linear, (first, last) = torch.nn.Linear, task.hidden_sizes
  widths = {120: first, 84: last}
  torch.nn.Linear = lambda inputs, outputs: linear(
    int(widths.get(inputs, inputs)), int(widths.get(outputs, outputs))
  )
  _SilentWriter.told = told
  tensorboard.SummaryWriter = _SilentWriter

  def count_update(*unused) -> None:
    told.updates += 1

  optimizers.register_optimizer_step_post_hook(count_update)
  scope = {"__name__": "__main__", "__file__": "dqn.py"}

  class Environments(gymnasium.vector.SyncVectorEnv):
    def step(self, actions):
      if told.evaluation_due(task.evaluation_period):
        told.evaluate(lambda: _play(environment, scope))
      told.env_steps += 1
      return super().step(actions)

  # The evaluation's own are made by `gymnasium.vector.make`, elsewhere.
  gymnasium.vector.SyncVectorEnv = Environments

  sys.argv = [
    "dqn.py",
    f"--env-id={environment}",
    f"--seed={asked.seed}",
    "--cuda=False",
    f"--total-timesteps={_FOR_EVER}",
    f"--learning-rate={task.learning_rate}",
    f"--buffer-size={task.capacity}",
    f"--gamma={task.discount}",
    f"--target-network-frequency={task.target_period * task.steps_per_update}",
    f"--batch-size={task.batch_size}",
    f"--end-e={task.epsilon_end}",
    f"--exploration-fraction={task.decay_steps / _FOR_EVER}",
    f"--learning-starts={task.min_size}",
    f"--train-frequency={task.steps_per_update}",
  ]
  found = importlib.util.find_spec("cleanrl.dqn")
  source = found.loader.get_source("cleanrl.dqn")
  exec(compile(source, found.origin, "exec"), scope)


if __name__ == "__main__":
  main()
