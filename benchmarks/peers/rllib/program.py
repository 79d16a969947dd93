"""RLlib's Ape-X DQN, DQN and PPO (Ray 2.6.3): learn a task.

Ray 2.6 is the last release line whose RLlib contains Ape-X. It uses gymnasium
0.26, which has LunarLander-v2.
"""
# Types are checked with another Ray.
# pyright: reportMissingImports=false, reportArgumentType=false
# pyright: reportOptionalMemberAccess=false

import os

import progress
import ray
import rollouts
import tasks
from ray.rllib.algorithms import apex_dqn, dqn, ppo

_WORKERS = 2  # worker processes of Ape-X
_ENVIRONMENTS = 4  # environments of each of them


def _configure(config, task: rollouts.Task | tasks.Task):
  """Sets the environment and what both algorithms share; returns the config."""
  return (
    config.environment(task.environment.replace("Lander-v3", "Lander-v2"))
    .framework("tf")
    .reporting(
      min_time_s_per_iteration=1,
      metrics_num_episodes_for_smoothing=progress.EPISODES,
    )
    .resources(num_gpus=0, num_cpus_for_local_worker=0)
  )


def _make_ppo(task: rollouts.Task):
  """Makes RLlib's config of PPO from a task's values."""
  return (
    _configure(ppo.PPOConfig(), task)
    .training(
      lr=task.learning_rate,
      gamma=task.discount,
      lambda_=task.gae_lambda,
      train_batch_size=task.batch_size,
      sgd_minibatch_size=task.minibatch_size,
      num_sgd_iter=task.epochs,
      clip_param=task.clip,
      entropy_coeff=task.entropy_weight,
      use_kl_loss=False,
      kl_coeff=0.0,
      vf_clip_param=1e6,
      grad_clip=0.5,
      model={
        "fcnet_hiddens": list(task.hidden_sizes),
        "fcnet_activation": "tanh",
        "vf_share_layers": False,
      },
    )
    .rollouts(
      num_rollout_workers=0,
      num_envs_per_worker=task.environments,
      rollout_fragment_length=task.unroll,
    )
  )


def _make_dqn(variant: str, task: tasks.Task):
  """Makes RLlib's config of DQN, or of Ape-X DQN for variant 'apex'."""
  distributed = variant == "apex"
  make = apex_dqn.ApexDQNConfig if distributed else dqn.DQNConfig
  replay = {
    **make().replay_buffer_config,
    "capacity": task.capacity,
  }
  if not distributed:
    replay["type"] = "MultiAgentReplayBuffer"
    for name in [n for n in replay if n.startswith("prioritized_replay")]:
      del replay[name]
  config = (
    _configure(make(), task)
    .training(
      lr=task.learning_rate,
      gamma=task.discount,
      train_batch_size=task.batch_size,
      # Trained steps per sampled step.
      training_intensity=task.batch_size / task.steps_per_update,
      target_network_update_freq=task.target_period * task.steps_per_update,
      num_steps_sampled_before_learning_starts=task.min_size,
      replay_buffer_config=replay,
      double_q=False,
      dueling=False,
      n_step=1,
      hiddens=[],
      model={
        "fcnet_hiddens": list(task.hidden_sizes),
        "fcnet_activation": "relu",
      },
      grad_clip=10.0,
    )
    .rollouts(
      num_rollout_workers=_WORKERS if distributed else 0,
      num_envs_per_worker=_ENVIRONMENTS if distributed else 8,
      rollout_fragment_length=50 if distributed else 1,
    )
    .reporting(min_sample_timesteps_per_iteration=0)
  )
  if distributed:
    config.optimizer["num_replay_buffer_shards"] = 1
    config.resources(num_cpus_per_worker=1)
  else:
    config.exploration(
      exploration_config={
        "type": "EpsilonGreedy",
        "initial_epsilon": 1.0,
        "final_epsilon": task.epsilon_end,
        "epsilon_timesteps": task.decay_steps,
      }
    )
  return config


def _add_evaluation(config):
  """Adds evaluations without exploration to a config, and returns it."""
  return config.evaluation(
    evaluation_interval=None,
    evaluation_duration=progress.EPISODES,
    evaluation_duration_unit="episodes",
    evaluation_num_workers=0,
    evaluation_config={"explore": False, "num_envs_per_worker": 8},
  )


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("apex", "dqn", "ppo"))
  if args.variant == "ppo":
    task = rollouts.TASKS[args.task]
    config, updates_per_batch = _make_ppo(task), task.updates_per_batch
  else:
    task = tasks.TASKS[args.task]
    config, updates_per_batch = _make_dqn(args.variant, task), 1
  reporter = progress.Reporter(args.until, args.in_a_row)
  # More logical than real CPUs, since Ray's actors wait for one another.
  ray.init(num_cpus=max(8, os.cpu_count() or 1), include_dashboard=False)
  config = config.debugging(seed=args.seed)
  if args.until is not None:
    config = _add_evaluation(config)
  algorithm = config.build()
  seen = 0
  while True:
    result = algorithm.train()
    reporter.env_steps = result["num_env_steps_sampled"]
    reporter.updates = (
      result["num_env_steps_trained"] // task.batch_size * updates_per_batch
    )
    ended = result["hist_stats"]["episode_reward"]
    new = result["episodes_total"] - seen
    seen = result["episodes_total"]
    for value in ended[-new:] if new else []:
      reporter.add_return(value)
    if reporter.evaluation_due(task.evaluation_period):
      reporter.evaluate(
        lambda: algorithm.evaluate()["evaluation"]["hist_stats"][
          "episode_reward"
        ]
      )


if __name__ == "__main__":
  main()
