"""PufferLib's PPO, the trainer PuffeRL of its package pufferlib-core.

The package has its function for advantages compiled for CUDA. This program
compiles the same source, which is in the package, for the CPU.
"""
# pyright: reportMissingImports=false, reportArgumentType=false
# pyright: reportOptionalMemberAccess=false

import os
import pathlib
import sys
import time
import typing

import greedy
import gymnasium
import progress
import pufferlib
import rollouts
import torch
from pufferlib import emulation, pytorch, vector
from torch import nn
from torch.utils import cpp_extension

_FOR_EVER = 10**9


def _import_trainer():
  """Returns the module `pufferl`, whose C++ is compiled in the first run."""
  package = pathlib.Path(pufferlib.__file__).parent
  source = package / "extensions" / "pufferlib.cpp"
  folder = pathlib.Path(sys.prefix) / "extensions"
  folder.mkdir(exist_ok=True)
  (folder / "lock").unlink(missing_ok=True)  # of a run that was interrupted
  # The compilation runs `ninja`, a program of the same virtual environment.
  programs = os.path.dirname(sys.executable)
  os.environ["PATH"] = os.pathsep.join((programs, os.environ["PATH"]))
  sys.modules["pufferlib._C"] = cpp_extension.load(
    "_C", [str(source)], build_directory=str(folder)
  )
  from pufferlib import pufferl

  return pufferl


class _Policy(nn.Module):
  """Two MLPs, for the actions' logits and for state values."""

  def __init__(self, task: rollouts.Task, environments):
    super().__init__()
    inputs = environments.single_observation_space.shape[0]
    actions = environments.single_action_space.n
    self.actor = _make_mlp(inputs, task.hidden_sizes, actions, 0.01)
    self.critic = _make_mlp(inputs, task.hidden_sizes, 1, 1.0)

  def forward(self, observations, state=None):
    return self.actor(observations), self.critic(observations)

  forward_eval = forward  # which PufferLib calls to collect


def _make_mlp(
  inputs: int, hidden_sizes: typing.Sequence[int], outputs: int, scale: float
) -> nn.Sequential:
  """Makes an MLP with tanh, initialized as PufferLib's policies are.

  Args:
    inputs: number of inputs.
    hidden_sizes: units of the hidden layers.
    outputs: number of outputs.
    scale: scale of the last layer's orthogonal weights.
  """
  layers: list[nn.Module] = []
  for units in hidden_sizes:
    layers += [pytorch.layer_init(nn.Linear(inputs, units)), nn.Tanh()]
    inputs = units
  layers.append(pytorch.layer_init(nn.Linear(inputs, outputs), std=scale))
  return nn.Sequential(*layers)


def _make_environments(task: rollouts.Task):
  """Makes PufferLib's vector of a task's environments, in this process."""
  return vector.make(
    lambda **kwargs: emulation.GymnasiumPufferEnv(
      pufferlib.pufferlib.EpisodeStats(gymnasium.make(task.environment)),
      **kwargs,
    ),
    num_envs=task.environments,
    backend=vector.Serial,
  )


def _make_config(task: rollouts.Task, seed: int) -> dict[str, typing.Any]:
  """Returns PuffeRL's config for a task's values."""
  return {
    "env": task.environment,
    "seed": seed,
    "device": "cpu",
    "total_timesteps": _FOR_EVER,
    "batch_size": task.batch_size,
    "bptt_horizon": task.unroll,
    "minibatch_size": task.minibatch_size,
    "max_minibatch_size": task.minibatch_size,
    "update_epochs": task.epochs,
    "optimizer": "adam",
    "learning_rate": task.learning_rate,
    "anneal_lr": False,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_eps": 1e-5,
    "gamma": task.discount,
    "gae_lambda": task.gae_lambda,
    "clip_coef": task.clip,
    "vf_clip_coef": task.value_clip or 1e6,
    # Its value loss has a factor of a half.
    "vf_coef": 1.0,
    "ent_coef": task.entropy_weight,
    "max_grad_norm": 0.5,
    # All segments of a batch are equally likely, and none weighs more.
    "prio_alpha": 0.0,
    "prio_beta0": 1.0,
    "vtrace_rho_clip": 1.0,
    "vtrace_c_clip": 1.0,
    "use_rnn": False,
    "cpu_offload": False,
    "precision": "float32",
    "compile": False,
    "torch_deterministic": True,
    "checkpoint_interval": _FOR_EVER,
    "data_dir": os.getcwd(),
  }


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("ppo",))
  task = rollouts.TASKS[args.task]
  reporter = progress.Reporter(args.until, args.in_a_row)
  torch.set_num_threads(1)
  torch.manual_seed(args.seed)
  began_s = time.monotonic()
  pufferl = _import_trainer()
  reporter.paused_s += time.monotonic() - began_s
  environments = _make_environments(task)
  policy = _Policy(task, environments)
  trainer = pufferl.PuffeRL(_make_config(task, args.seed), environments, policy)

  @torch.no_grad()
  def act(observations):
    logits, _ = policy(torch.as_tensor(observations))
    return logits.argmax(dim=1).numpy()

  episodes = 0
  while True:
    # An episode's return must be taken before PuffeRL averages it.
    for value in trainer.evaluate().pop("episode_return", []):
      episodes += 1
      reporter.add_return(value)
    trainer.train()
    # PufferLib counts an environment's reset as a step.
    reporter.env_steps = trainer.global_step - episodes
    reporter.updates = trainer.epoch * task.updates_per_batch
    if reporter.evaluation_due(task.evaluation_period):
      reporter.evaluate(lambda: greedy.play(task.environment, act))


if __name__ == "__main__":
  main()
