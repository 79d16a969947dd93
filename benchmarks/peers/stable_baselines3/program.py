"""Stable-Baselines3's DQN, PPO, SAC and TD3: learn a task.

Variants `8_environments` and `1_environment` run DQN with the task's values.
Variant `zoo` runs DQN with the values that RL Baselines3 Zoo (rl_zoo3 2.9.2,
hyperparameters/dqn.yml) has tuned. Variant `ppo` runs PPO with the task's
values, which are the Zoo's, or CleanRL's for HalfCheetah. Variants
`actor_critic` and `actor_critic_4` run SAC or TD3 with 1 and 4 environments.
"""
# pyright: reportMissingImports=false

import ale_py
import continuous
import gymnasium
import progress
import rollouts
import sb3_models
import tasks
import torch
from stable_baselines3 import dqn, ppo, sac, td3
from stable_baselines3.common import env_util, vec_env

_TASKS = {**tasks.TASKS, **rollouts.TASKS, **continuous.TASKS}

# Arguments of DQN from RL Baselines3 Zoo, by task.
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
    "exploration_fraction": 0.16 * 5e4 / sb3_models.FOR_EVER,
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
    "exploration_fraction": 0.12 * 1e5 / sb3_models.FOR_EVER,
    "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [256, 256]},
  },
}


def _make_environments(name: str, count: int, seed: int):
  """Makes a vector of `count` environments of a task."""
  if name in continuous.TASKS:
    return sb3_models.make_environments(name, count, seed)
  environment = _TASKS[name].environment
  if name == "ppo_halfcheetah":
    return vec_env.VecNormalize(
      env_util.make_vec_env(environment, count, seed),
      gamma=rollouts.TASKS[name].discount,
    )
  if not name.endswith("pong"):
    return env_util.make_vec_env(environment, count, seed)
  gymnasium.register_envs(ale_py)
  return vec_env.VecFrameStack(
    env_util.make_atari_env(
      environment,
      count,
      seed,
      env_kwargs={"frameskip": 1, "repeat_action_probability": 0.0},
    ),
    4,
  )


def _make_arguments(name: str, count: int) -> dict:
  """Returns a task's values as arguments of Stable-Baselines3's DQN.

  Args:
    name: name of the task.
    count: number of environments.
  """
  task = tasks.TASKS[name]
  arguments = {
    "learning_rate": task.learning_rate,
    "batch_size": task.batch_size,
    "buffer_size": task.capacity,
    "learning_starts": task.min_size,
    "gamma": task.discount,
    "target_update_interval": task.target_period * task.steps_per_update,
    # Steps of the vector between two rounds of updates, and updates per round.
    "train_freq": max(1, task.steps_per_update // count),
    "gradient_steps": max(1, count // task.steps_per_update),
    "exploration_fraction": task.decay_steps / sb3_models.FOR_EVER,
    "exploration_final_eps": task.epsilon_end,
  }
  if name != "pong":  # the CNN's hidden layer has 512 units by default
    arguments["policy_kwargs"] = {"net_arch": list(task.hidden_sizes)}
  return arguments


def _make_dqn(args) -> dqn.DQN:
  """Makes DQN for the task and variant of the flags."""
  count = 8 if args.variant == "8_environments" else 1
  arguments = (
    _ZOO[args.task]
    if args.variant == "zoo"
    else _make_arguments(args.task, count)
  )
  return dqn.DQN(
    "CnnPolicy" if args.task == "pong" else "MlpPolicy",
    _make_environments(args.task, count, args.seed),
    seed=args.seed,
    device="cpu",
    **arguments,
  )


def _make_ppo(args) -> ppo.PPO:
  """Makes PPO for the task of the flags."""
  task = rollouts.TASKS[args.task]

  def decay(value: float):
    # Stable-Baselines3 passes the share of all steps that remains.
    return lambda remaining: (
      value * task.decay_factor((1.0 - remaining) * sb3_models.FOR_EVER)
    )

  pixels = args.task == "ppo_pong"  # the CNN's hidden layer has 512 units
  return ppo.PPO(
    "CnnPolicy" if pixels else "MlpPolicy",
    _make_environments(args.task, task.environments, args.seed),
    learning_rate=decay(task.learning_rate),
    n_steps=task.unroll,
    batch_size=task.minibatch_size,
    n_epochs=task.epochs,
    gamma=task.discount,
    gae_lambda=task.gae_lambda,
    clip_range=decay(task.clip),
    clip_range_vf=decay(task.value_clip) if task.value_clip else None,
    ent_coef=task.entropy_weight,
    # Its value loss has no factor of a half.
    vf_coef=0.25 if task.value_clip else 0.5,
    policy_kwargs={} if pixels else {"net_arch": list(task.hidden_sizes)},
    seed=args.seed,
    device="cpu",
  )


def _make_model(args):
  """Makes the model for the task and variant of the flags."""
  if args.variant == "ppo":
    return _make_ppo(args)
  if args.task in continuous.TASKS:
    return sb3_models.make_actor_critic({"sac": sac.SAC, "td3": td3.TD3}, args)
  return _make_dqn(args)


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(
    (
      "8_environments",
      "1_environment",
      "zoo",
      "ppo",
      "actor_critic",
      "actor_critic_4",
    )
  )
  reporter = progress.Reporter(args.until, args.in_a_row)
  # A second thread slows small networks down.
  large = args.task.endswith("pong") or args.task in continuous.TASKS
  torch.set_num_threads(min(2, torch.get_num_threads()) if large else 1)
  sb3_models.learn(
    _make_model(args),
    reporter,
    args,
    _TASKS[args.task].evaluation_period,
    _make_environments,
  )


if __name__ == "__main__":
  main()
