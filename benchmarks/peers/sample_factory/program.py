"""Sample Factory's APPO on a task.

Variant `async` collects while it learns, as by default; `sync` does not, and is
PPO. One worker process and one learner process share two cores.
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


def _flags(task: rollouts.Task, variant: str, seed: int) -> list[str]:
  """Returns the task's values as Sample Factory's flags."""
  at_once = variant == "async"
  values = {
    "algo": "APPO",
    "env": task.environment,
    "experiment": "run",
    "train_dir": os.getcwd(),
    "seed": seed,
    "device": "cpu",
    "async_rl": at_once,
    "num_workers": 1,
    "num_envs_per_worker": task.environments,
    # Two halves in turn: one steps while the other's actions are computed.
    "worker_num_splits": 2,
    "policy_workers_per_policy": 1,
    "rollout": task.unroll,
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
    "actor_critic_share_weights": False,
    # Its own ways to scale what is learned from, without which it learns
    # little with these numbers.
    "normalize_input": True,
    "normalize_returns": True,
    "train_for_env_steps": _FOR_EVER,
    "save_every_sec": 3_600,
    "save_best_every_sec": 3_600,
    "log_to_file": False,
  }
  flags = [f"--{name}={value}" for name, value in values.items()]
  return [*flags, "--encoder_mlp_layers", *map(str, task.hidden_sizes)]


def _make(name: str, cfg=None, env_config=None, render_mode=None):
  """Makes an environment, as Sample Factory asks for it."""
  del cfg, env_config
  return gymnasium.make(name.replace("Lander-v3", "Lander-v2"))


class _Counter(runner_lib.AlgoObserver):
  """An observer that reports steps and updates."""

  def __init__(self, told: progress.Progress, task: rollouts.Task):
    self._told, self._task = told, task

  def on_training_step(self, runner, training_iteration_since_resume: int):
    self._told.env_steps = runner.total_env_steps_since_resume or 0
    self._told.updates = (
      training_iteration_since_resume * self._task.updates_per_batch
    )


def main() -> int:
  """Learns until the target, or until the process is killed."""
  asked = progress.parse_arguments(("async", "sync"))
  task = rollouts.TASKS[asked.task]
  told = progress.Progress(asked.until)
  env_utils.register_env(task.environment, _make)
  cfg = arguments.parse_full_cfg(
    *_parsers(_flags(task, asked.variant, asked.seed))
  )
  cfg, runner = make_runner(cfg)
  runner.register_observer(_Counter(told, task))

  def add_returns(unused_runner, message, unused_policy):
    for value in np.atleast_1d(message["episodic"]["reward"]):
      told.add_return(value)

  runner.register_episodic_stats_handler(add_returns)
  runner.init()
  runner.run()
  return 1


def _parsers(flags: list[str]):
  parser, _ = arguments.parse_sf_args(argv=flags)
  return parser, flags


if __name__ == "__main__":
  sys.exit(main())
