"""CleanRL's scripts, unchanged from its PyPI package: learn a task.

They are dqn.py, ppo.py, and for HalfCheetah ppo_continuous_action.py.

The scripts report no progress, so this program replaces classes that they use.
It replaces dqn.py's layers of 120 and 84 units by layers of the task's sizes;
those of PPO have these sizes. Variants that end with `_compiled` compile
networks and optimizers. The installed gymnasium and gym have LunarLander-v2 and
HalfCheetah-v4.
"""
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false

import importlib.util
import sys

import greedy
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
  """A substitute for TensorBoard's writer that only reports episode returns."""

  reporter: progress.Reporter

  def __init__(self, unused_folder: str):
    pass

  def add_text(self, *unused) -> None:
    pass

  def add_scalar(self, name: str, value, unused_step) -> None:
    if name == "charts/episodic_return":
      self.reporter.add_return(float(np.squeeze(value)))


def _play(environment: str, network) -> list[float]:
  """Plays greedy episodes, and returns their returns.

  Args:
    environment: gymnasium id.
    network: function from observations to the actions' values or logits.
  """

  @torch.no_grad()
  def act(observations):
    return network(torch.Tensor(observations)).argmax(dim=1).numpy()

  return greedy.play(environment, act)


def _learn_dqn(
  reporter: progress.Reporter, task: tasks.Task, seed: int
) -> None:
  """Runs dqn.py on a task, for ever."""
  environment = task.environment.replace("-v3", "-v2")
  linear, (first, last) = torch.nn.Linear, task.hidden_sizes
  widths = {120: first, 84: last}
  torch.nn.Linear = lambda inputs, outputs: linear(
    int(widths.get(inputs, inputs)), int(widths.get(outputs, outputs))
  )
  scope = _make_scope("dqn")

  class Environments(gymnasium.vector.SyncVectorEnv):
    def step(self, actions):
      if reporter.evaluation_due(task.evaluation_period):
        reporter.evaluate(lambda: _play(environment, scope["q_network"]))
      reporter.env_steps += 1
      return super().step(actions)

  gymnasium.vector.SyncVectorEnv = Environments
  _run(
    scope,
    [
      *_make_shared_flags(environment, seed, task.learning_rate),
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


def _learn_ppo(
  reporter: progress.Reporter, task: rollouts.Task, seed: int
) -> None:
  """Runs ppo.py on a task, for ever."""
  environment = task.environment.replace("Lander-v3", "Lander-v2")
  scope = _make_scope("ppo")

  class Environments(gym.vector.SyncVectorEnv):
    def step_async(self, actions):
      if reporter.evaluation_due(task.evaluation_period):
        reporter.evaluate(lambda: _play(environment, scope["agent"].actor))
      reporter.env_steps += self.num_envs
      super().step_async(actions)

  gym.vector.SyncVectorEnv = Environments
  _run(
    scope,
    [
      *_make_shared_flags(environment, seed, task.learning_rate),
      # Annealing needs the number of all steps, which is infinite here.
      "--anneal-lr=False",
      *_make_ppo_flags(task),
    ],
  )


def _learn_continuous_ppo(
  reporter: progress.Reporter, task: rollouts.Task, seed: int
) -> None:
  """Runs ppo_continuous_action.py on HalfCheetah, for a million steps."""

  class Environments(gymnasium.vector.SyncVectorEnv):
    def step(self, actions):
      reporter.env_steps += self.num_envs
      return super().step(actions)

  gymnasium.vector.SyncVectorEnv = Environments
  _run(
    _make_scope("ppo_continuous_action"),
    [
      *_make_shared_flags(
        task.environment.replace("-v5", "-v4"), seed, task.learning_rate
      ),
      # One batch more, so that the last report is not before their end.
      f"--total-timesteps={task.decay_steps + 2 * task.batch_size}",
      *_make_ppo_flags(task),
    ],
  )


def _make_shared_flags(
  environment: str, seed: int, learning_rate: float
) -> list[str]:
  """Returns the flags that all scripts share."""
  return [
    f"--env-id={environment}",
    f"--seed={seed}",
    "--cuda=False",
    f"--total-timesteps={_FOR_EVER}",
    f"--learning-rate={learning_rate}",
  ]


def _make_ppo_flags(task: rollouts.Task) -> list[str]:
  """Returns the flags of a task's rollouts and PPO's losses."""
  return [
    f"--num-envs={task.environments}",
    f"--num-steps={task.unroll}",
    f"--gamma={task.discount}",
    f"--gae-lambda={task.gae_lambda}",
    f"--num-minibatches={task.batch_size // task.minibatch_size}",
    f"--update-epochs={task.epochs}",
    f"--clip-coef={task.clip}",
    f"--ent-coef={task.entropy_weight}",
    f"--clip-vloss={task.value_clip > 0}",
  ]


def _compile() -> None:
  """Makes torch.compile compile networks and optimizers of CleanRL's scripts.

  The losses are not compiled, since they are not functions of the scripts.
  """
  sequential, adam = torch.nn.Sequential, torch.optim.Adam

  class Sequential(sequential):
    def __init__(self, *layers):
      super().__init__(*layers)
      self.compile(dynamic=False)

  class Adam(adam):
    def __init__(self, *args, **kwargs):
      super().__init__(*args, **kwargs)
      self.step = torch.compile(self.step)

  torch.nn.Sequential, torch.optim.Adam = Sequential, Adam


def _make_scope(name: str) -> dict:
  """Returns the global variables with which CleanRL's script `name` starts."""
  return {"__name__": "__main__", "__file__": f"{name}.py"}


def _run(scope: dict, flags: list[str]) -> None:
  """Runs a CleanRL script with flags.

  Args:
    scope: the script's global variables, from `_make_scope`; the script adds
      its own, such as its network.
    flags: flags of the script.
  """
  file = scope["__file__"]
  module = f"cleanrl.{file.removesuffix('.py')}"
  sys.argv = [file, *flags]
  found = importlib.util.find_spec(module)
  source = found.loader.get_source(module)
  exec(compile(source, found.origin, "exec"), scope)


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(
    ("dqn", "ppo", "dqn_compiled", "ppo_compiled")
  )
  reporter = progress.Reporter(args.until, args.in_a_row)
  torch.set_num_threads(1)
  _SilentWriter.reporter = reporter
  tensorboard.SummaryWriter = _SilentWriter

  def count_update(*unused) -> None:
    reporter.updates += 1

  optimizers.register_optimizer_step_post_hook(count_update)
  if args.variant.endswith("_compiled"):
    _compile()
  if args.task == "ppo_halfcheetah":
    _learn_continuous_ppo(reporter, rollouts.TASKS[args.task], args.seed)
  elif args.variant.startswith("ppo"):
    _learn_ppo(reporter, rollouts.TASKS[args.task], args.seed)
  else:
    _learn_dqn(reporter, tasks.TASKS[args.task], args.seed)


if __name__ == "__main__":
  main()
