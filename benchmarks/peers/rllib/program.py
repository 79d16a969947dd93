"""RLlib's Ape-X DQN, DQN and PPO (Ray 2.6.3) on a task.

Ray 2.6 is the last release line whose RLlib contains Ape-X. It uses gymnasium
0.26, which has LunarLander-v2.
"""
# pyright: reportMissingImports=false

import os

import progress
import ray
import rollouts
import tasks
from ray.rllib.algorithms import apex_dqn, dqn, ppo

_WORKERS = 2  # of Ape-X
_ENVIRONMENTS = 4  # each


def _make_ppo(task: rollouts.Task):
  """Makes RLlib's config of PPO from the task's values."""
  return (
    ppo.PPOConfig()
    .environment(task.environment.replace("Lander-v3", "Lander-v2"))
    .framework("tf")
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
    .reporting(
      min_time_s_per_iteration=1,
      metrics_num_episodes_for_smoothing=progress.EPISODES,
    )
    .resources(num_gpus=0, num_cpus_for_local_worker=0)
  )


def _make_dqn(variant: str, task: tasks.Task):
  """Makes RLlib's config of DQN from the task's values."""
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
    make()
    .environment(task.environment.replace("-v3", "-v2"))
    .framework("tf")
    .training(
      lr=task.learning_rate,
      gamma=task.discount,
      train_batch_size=task.batch_size,
      # Steps trained a step sampled.
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
    .reporting(
      min_time_s_per_iteration=1,
      min_sample_timesteps_per_iteration=0,
      metrics_num_episodes_for_smoothing=progress.EPISODES,
    )
    .resources(num_gpus=0, num_cpus_for_local_worker=0)
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


def _make_greedy(config):
  """Makes the config of evaluation workers, without exploration."""
  return config.evaluation(
    evaluation_interval=None,
    evaluation_duration=progress.EPISODES,
    evaluation_duration_unit="episodes",
    evaluation_num_workers=0,
    evaluation_config={"explore": False, "num_envs_per_worker": 8},
  )


def main() -> None:
  """Learns until the target, or until the process is killed."""
  asked = progress.parse_arguments(("apex", "dqn", "ppo"))
  if asked.variant == "ppo":
    task = rollouts.TASKS[asked.task]
    config, updates_per_batch = _make_ppo(task), task.updates_per_batch
  else:
    task = tasks.TASKS[asked.task]
    config, updates_per_batch = _make_dqn(asked.variant, task), 1
  told = progress.Progress(asked.until)
  # More logical than real ones: its actors wait for one another.
  ray.init(num_cpus=max(8, os.cpu_count() or 1), include_dashboard=False)
  config = config.debugging(seed=asked.seed)
  if asked.until is not None:
    config = _make_greedy(config)
  algorithm = config.build()
  seen = 0
  while True:
    result = algorithm.train()
    told.env_steps = result["num_env_steps_sampled"]
    told.updates = (
      result["num_env_steps_trained"] // task.batch_size * updates_per_batch
    )
    ended = result["hist_stats"]["episode_reward"]
    new = result["episodes_total"] - seen
    seen = result["episodes_total"]
    for value in ended[-new:] if new else []:
      told.add_return(value)
    if told.evaluation_due(task.evaluation_period):
      told.evaluate(
        lambda: algorithm.evaluate()["evaluation"]["hist_stats"][
          "episode_reward"
        ]
      )


if __name__ == "__main__":
  main()
