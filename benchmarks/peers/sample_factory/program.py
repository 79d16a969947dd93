"""Sample Factory's APPO: learns a task.

Variant `async`, the library's default, collects while it learns. Variant `sync`
alternates, and so is PPO. One worker process and one learner process share two
cores.
"""
# pyright: reportMissingImports=false

import os
import sys

import gymnasium
import numpy as np
import progress
import rollouts
from sample_factory.algo.runners import runner as runner_lib
from sample_factory.cfg import arguments
from sample_factory.envs import env_utils
from sample_factory.train import make_runner

_FOR_EVER = 10**9
_PONG = "ALE/Pong-v5"


def _make_flags(task: rollouts.Task, variant: str, seed: int) -> list[str]:
  """Returns Sample Factory's flags for a task's values."""
  values = {
    "algo": "APPO",
    "env": task.environment,
    "experiment": "run",
    "train_dir": os.getcwd(),
    "seed": seed,
    "device": "cpu",
    "async_rl": variant == "async",
    "num_workers": 1,
    "num_envs_per_worker": task.environments,
    # Two groups of environments: one steps while the network computes the
    # other's actions.
    "worker_num_splits": 2,
    "policy_workers_per_policy": 1,
    # Each of its minibatches has whole rollouts, so a long rollout is several.
    "rollout": min(task.unroll, task.minibatch_size),
    "recurrence": 1,
    "use_rnn": False,
    "batch_size": task.minibatch_size,
    "num_batches_per_epoch": task.batch_size // task.minibatch_size,
    "num_epochs": task.epochs,
    "learning_rate": task.learning_rate,
    "gamma": task.discount,
    "gae_lambda": task.gae_lambda,
    "ppo_clip_ratio": task.clip,
    "exploration_loss_coeff": task.entropy_weight,
    "max_grad_norm": 0.5,
    "nonlinearity": "tanh",
    "actor_critic_share_weights": task.environment == _PONG,
    # Sample Factory's own normalization, without which it learns little with
    # these values.
    "normalize_input": task.environment != _PONG,
    "normalize_returns": True,
    "ppo_clip_value": task.value_clip or 1.0,  # 1: its default
    # One parameter for all observations, as the other libraries have.
    "adaptive_stddev": False,
    "encoder_conv_architecture": "convnet_atari",
    "obs_scale": 255.0 if task.environment == _PONG else 1.0,
    "train_for_env_steps": _FOR_EVER,
    "save_every_sec": 3_600,
    "save_best_every_sec": 3_600,
    "log_to_file": False,
  }
  flags = [f"--{name}={value}" for name, value in values.items()]
  sizes = map(str, task.hidden_sizes)
  return [
    *flags,
    "--encoder_conv_mlp_layers"
    if task.environment == _PONG
    else "--encoder_mlp_layers",
    *sizes,
  ]


def _make_environment(name: str, cfg=None, env_config=None, render_mode=None):
  """Makes an environment, with the arguments that Sample Factory passes."""
  del cfg, env_config
  if name == _PONG:
    return _make_pong()
  name = name.replace("Lander-v3", "Lander-v2")
  return gymnasium.make(name.replace("Cheetah-v5", "Cheetah-v4"))


def _make_pong() -> gymnasium.Env:
  """Makes Pong with 4 stacked grey frames, each action repeated for 4."""
  import ale_py.registration

  if _PONG not in gymnasium.registry:
    ale_py.registration.register_v5_envs()
  environment = gymnasium.make(
    _PONG, frameskip=1, repeat_action_probability=0.0
  )
  environment = gymnasium.wrappers.AtariPreprocessing(environment)
  return _AsArray(gymnasium.wrappers.FrameStack(environment, 4))


class _AsArray(gymnasium.ObservationWrapper):
  """Converts stacked frames to one array."""

  def observation(self, observation):
    return np.asarray(observation)


class _Counter(runner_lib.AlgoObserver):
  """An observer of Sample Factory that reports steps and updates."""

  def __init__(self, reporter: progress.Reporter, task: rollouts.Task):
    self._reporter, self._task = reporter, task

  def on_training_step(self, runner, training_iteration_since_resume: int):
    self._reporter.env_steps = runner.total_env_steps_since_resume or 0
    self._reporter.updates = (
      training_iteration_since_resume * self._task.updates_per_batch
    )


def main() -> int:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("async", "sync"))
  task = rollouts.TASKS[args.task]
  reporter = progress.Reporter(args.until, args.in_a_row)
  env_utils.register_env(task.environment, _make_environment)
  cfg = arguments.parse_full_cfg(
    *_make_parser(_make_flags(task, args.variant, args.seed))
  )
  cfg, runner = make_runner(cfg)
  runner.register_observer(_Counter(reporter, task))

  def add_returns(unused_runner, message, unused_policy):
    for value in np.atleast_1d(message["episodic"]["reward"]):
      reporter.add_return(value)

  runner.register_episodic_stats_handler(add_returns)
  runner.init()
  runner.run()
  return 1


def _make_parser(flags: list[str]):
  """Returns Sample Factory's parser of flags, and the flags."""
  parser, _ = arguments.parse_sf_args(argv=flags)
  return parser, flags


if __name__ == "__main__":
  sys.exit(main())
