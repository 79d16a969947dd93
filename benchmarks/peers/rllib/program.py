"""RLlib's DQN and PPO, with its new API stack: learn a task.

Variants `dqn` and `ppo` collect in the learner's process; DQN has 8
environments there. Variant `dqn_workers` samples by priority, and collects in 2
processes with 4 environments each.
"""
# pyright: reportMissingImports=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import os

import greedy
import gymnasium
import progress
import ray
import rollouts
import tasks
import torch
from ray.rllib.algorithms import dqn, ppo
from ray.rllib.core.rl_module import default_model_config
from ray.tune import registry

_ENVIRONMENT = "with_statistics"
_WORKERS = 2
_FRAGMENT = 50  # steps of a worker's environment between two rounds of updates


def _make_environment(config):
  """Makes an environment that adds the return to the last step of an episode.

  The episodes that RLlib passes to callbacks have their last fragment only.
  """
  return gymnasium.wrappers.RecordEpisodeStatistics(
    gymnasium.make(config["id"])
  )


def _configure(config, task: rollouts.Task | tasks.Task, activation: str):
  """Sets the environment and what both algorithms share; returns the config."""
  return (
    config.environment(_ENVIRONMENT, env_config={"id": task.environment})
    .reporting(min_time_s_per_iteration=1)
    .training(lr=task.learning_rate, gamma=task.discount)
    .rl_module(
      model_config=default_model_config.DefaultModelConfig(
        fcnet_hiddens=list(task.hidden_sizes),
        fcnet_activation=activation,
        vf_share_layers=False,
      )
    )
  )


def _make_ppo(task: rollouts.Task):
  """Makes RLlib's config of PPO from a task's values."""
  return (
    _configure(ppo.PPOConfig(), task, "tanh")
    .training(
      lambda_=task.gae_lambda,
      train_batch_size_per_learner=task.batch_size,
      minibatch_size=task.minibatch_size,
      num_epochs=task.epochs,
      clip_param=task.clip,
      entropy_coeff=task.entropy_weight,
      use_kl_loss=False,
      kl_coeff=0.0,
      vf_loss_coeff=0.5,
      vf_clip_param=float("inf"),
      grad_clip=0.5,
    )
    .env_runners(
      num_env_runners=0,
      num_envs_per_env_runner=task.environments,
      rollout_fragment_length=task.unroll,
    )
  )


def _make_dqn(task: tasks.Task, workers: int):
  """Makes RLlib's config of DQN from a task's values.

  Args:
    task: the task.
    workers: number of processes that collect; 0: the learner's own, and the
      replay is sampled uniformly.
  """
  # RLlib takes a process too many for granted if there are workers.
  intensity = task.batch_size / task.steps_per_update * max(workers, 1)
  return (
    _configure(dqn.DQNConfig(), task, "relu")
    .training(
      train_batch_size_per_learner=task.batch_size,
      # Trained steps per sampled step.
      training_intensity=intensity / (workers + 1),
      target_network_update_freq=task.target_period * task.steps_per_update,
      num_steps_sampled_before_learning_starts=task.min_size,
      replay_buffer_config={
        "type": "PrioritizedEpisodeReplayBuffer"
        if workers
        else "EpisodeReplayBuffer",
        "capacity": task.capacity,
      },
      epsilon=[(0, 1.0), (task.decay_steps, task.epsilon_end)],
      double_q=False,
      dueling=False,
      grad_clip=10.0,
    )
    .env_runners(
      num_env_runners=workers,
      num_envs_per_env_runner=4 if workers else 8,
      rollout_fragment_length=_FRAGMENT if workers else 1,
    )
    .reporting(min_sample_timesteps_per_iteration=0)
  )


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("dqn", "dqn_workers", "ppo"))
  torch.set_num_threads(1)
  if args.variant == "ppo":
    task = rollouts.TASKS[args.task]
    config, samples_per_update = _make_ppo(task), task.minibatch_size
  else:
    task = tasks.TASKS[args.task]
    config = _make_dqn(task, _WORKERS if args.variant == "dqn_workers" else 0)
    samples_per_update = task.batch_size
  reporter = progress.Reporter(args.until, args.in_a_row)

  def add_return(*, episode, **unused) -> None:
    reporter.add_return(episode.get_infos(-1)["episode"]["r"])

  registry.register_env(_ENVIRONMENT, _make_environment)
  if args.until is not None:
    config.callbacks(on_episode_end=add_return)
  # More logical than real CPUs, since Ray's actors wait for one another.
  ray.init(num_cpus=max(8, os.cpu_count() or 1), include_dashboard=False)
  algorithm = config.debugging(seed=args.seed).build_algo()

  @torch.no_grad()
  def act(observations):
    found = algorithm.get_module().forward_inference(
      {"obs": torch.as_tensor(observations)}
    )
    if "actions" in found:  # which DQN computes
      return found["actions"].numpy()
    return found["action_dist_inputs"].argmax(dim=1).numpy()

  while True:
    result = algorithm.train()
    sampled = result["env_runners"]["num_env_steps_sampled_lifetime"]
    reporter.env_steps = int(sampled)
    if "learners" in result:  # after the first update
      learned = result["learners"]["default_policy"]
      samples = learned["num_module_steps_trained_lifetime"]
      reporter.updates = samples // samples_per_update
    if reporter.evaluation_due(task.evaluation_period):
      reporter.evaluate(lambda: greedy.play(task.environment, act))


if __name__ == "__main__":
  main()
