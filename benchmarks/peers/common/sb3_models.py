"""SB3 models: what the programs of Stable-Baselines3 and SBX share.

SBX implements the classes of Stable-Baselines3 in JAX, and its environments and
callbacks are those of Stable-Baselines3, which this module imports.
No module of this folder may have the name of a package that a peer imports.
"""
# pyright: reportMissingImports=false

import typing
from collections.abc import Callable, Mapping

import continuous
import numpy as np
import progress
from stable_baselines3.common import (
  callbacks,
  env_util,
  evaluation,
  noise,
  vec_env,
)

FOR_EVER = 10**9  # environment steps

# Variants of SAC and TD3, and their number of environments.
VARIANTS = {"actor_critic": 1, "actor_critic_4": 4, "zoo": 1}


class _ProgressCallback(callbacks.BaseCallback):
  """A callback of a model that reports its counts, and evaluates the model."""

  def __init__(
    self,
    reporter: progress.Reporter,
    environments: vec_env.VecEnv | None,
    period: int,
    steps: int | None,
  ):
    """Initializes the callback.

    Args:
      reporter: reporter of the counts.
      environments: environments of the evaluations; None: there are none.
      period: environment steps between two evaluations; 0: there are none.
      steps: environment steps after which the model is evaluated, and the
        process exits; None: it never does.
    """
    super().__init__()
    self._reporter, self._steps = reporter, steps
    self._environments, self._period = environments, period

  def _on_step(self) -> bool:
    self._reporter.env_steps = self.num_timesteps
    self._reporter.updates = self.model._n_updates
    for info in self.locals["infos"]:
      if "episode" in info:
        self._reporter.add_return(info["episode"]["r"])
    if self._period and self._reporter.evaluation_due(self._period):
      self._reporter.evaluate(self._play)
    if self._steps and self.num_timesteps >= self._steps:
      self._reporter.end(self._play())
    return True

  def _play(self) -> list[float]:
    returns, _ = evaluation.evaluate_policy(
      self.model,
      self._environments,
      n_eval_episodes=progress.EPISODES,
      return_episode_rewards=True,
    )
    return returns


def make_environments(name: str, count: int, seed: int) -> vec_env.VecEnv:
  """Makes a vector of environments of a task with continuous actions.

  Args:
    name: name of the task.
    count: number of environments.
    seed: seed of the environments.
  """
  task = continuous.TASKS[name]
  return env_util.make_vec_env(
    task.environment, count, seed, env_kwargs=task.kwargs
  )


def make_actor_critic(algorithms: Mapping[str, typing.Any], args):
  """Makes the model of SAC or TD3 that learns a task.

  The model makes as many updates as environment steps. With the variant 'zoo',
  and on tasks that measure learning, it has the values that RL Baselines3 Zoo
  has tuned; otherwise those of Slipway's preset, for a comparison of speed.

  Args:
    algorithms: classes of the models, by the algorithm's name, 'sac' or 'td3',
      with which the name of the task begins.
    args: flags of the program.
  """
  task = continuous.TASKS[args.task]
  if args.variant == "zoo" or task.evaluation_period:
    task = continuous.ZOO[args.task]
  count = VARIANTS[args.variant]
  environments = make_environments(args.task, count, args.seed)
  algorithm = args.task.partition("_")[0]
  arguments = {}
  if algorithm == "td3":
    actions = environments.action_space.shape[0]
    arguments = {
      "policy_delay": task.policy_period,
      "target_policy_noise": task.target_noise,
      "target_noise_clip": task.target_noise_clip,
      "action_noise": noise.NormalActionNoise(
        np.zeros(actions), np.full(actions, task.noise_std)
      ),
    }

  def decay(remaining: float) -> float:
    # Stable-Baselines3 passes the share of all steps that remains.
    return task.learning_rate_at((1.0 - remaining) * FOR_EVER)

  return algorithms[algorithm](
    "MlpPolicy",
    environments,
    learning_rate=decay if task.decay_steps else task.learning_rate,
    buffer_size=task.capacity,
    learning_starts=task.min_size,
    batch_size=task.batch_size,
    tau=task.tau,
    gamma=task.discount,
    train_freq=1,
    gradient_steps=count,
    policy_kwargs={"net_arch": list(task.hidden_sizes)},
    seed=args.seed,
    device="cpu",
    **arguments,
  )


def learn(
  model: typing.Any,
  reporter: progress.Reporter,
  args: typing.Any,
  period: int,
  make_evaluated: Callable[[str, int, int], vec_env.VecEnv],
) -> None:
  """Learns until the target of the flags is reached, or for ever.

  Args:
    model: model of Stable-Baselines3 or SBX.
    reporter: reporter of the counts.
    args: flags of the program.
    period: environment steps between two evaluations; 0: there are none.
    make_evaluated: function that makes the environments of the evaluations,
      from the task's name, their number and their seed.
  """
  environments = None
  if period or args.steps:
    environments = make_evaluated(
      args.task, progress.EPISODES, args.seed + 1_000
    )
  model.learn(
    FOR_EVER,
    callback=_ProgressCallback(reporter, environments, period, args.steps),
    log_interval=FOR_EVER,
  )
