"""Tianshou's DQN, PPO and SAC: learn a task."""
# pyright: reportMissingImports=false, reportOptionalSubscript=false
# pyright: reportOptionalCall=false

import continuous
import greedy
import gymnasium
import progress
import rollouts
import tasks
import torch
from tianshou import trainer
from tianshou.algorithm import optim
from tianshou.algorithm.modelfree import dqn, ppo, reinforce, sac
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.logger import logger_base
from tianshou.utils.net import common, discrete
from tianshou.utils.net import continuous as continuous_nets
from torch.optim import lr_scheduler
from torch.optim import optimizer as optimizers

_EPOCH = 10**9  # environment steps
_DQN_ENVIRONMENTS = 8


class _Logger(logger_base.LazyLogger):
  """A logger of Tianshou that only reports the returns of episodes."""

  def __init__(self, reporter: progress.Reporter):
    super().__init__()
    self._reporter = reporter

  def log_training_data(self, log_data: dict, step: int) -> None:
    for value in log_data["returns"]:
      self._reporter.add_return(value)


class _Decay(optim.LRSchedulerFactory):
  """A schedule of Tianshou with a task's decay, one step per batch."""

  def __init__(self, task: rollouts.Task):
    self._task = task

  def create_scheduler(self, optim: torch.optim.Optimizer):
    size, task = self._task.batch_size, self._task
    return lr_scheduler.LambdaLR(optim, lambda x: task.decay_factor(x * size))


def _make_environments(environment: str, count: int, seed: int):
  """Makes Tianshou's vector of environments, in this process."""
  environments = DummyVectorEnv(
    [lambda: gymnasium.make(environment) for _ in range(count)]
  )
  environments.seed(seed)
  return environments


def _make_dqn(task: tasks.Task, spaces: gymnasium.Env):
  """Makes Tianshou's DQN from a task's values; returns it and its network."""
  model = common.Net(
    state_shape=spaces.observation_space.shape,
    action_shape=spaces.action_space.n,
    hidden_sizes=task.hidden_sizes,
  )
  policy = dqn.DiscreteQLearningPolicy(
    model=model, action_space=spaces.action_space, eps_training=1.0
  )
  return dqn.DQN(
    policy=policy,
    optim=optim.AdamOptimizerFactory(lr=task.learning_rate),
    gamma=task.discount,
    target_update_freq=task.target_period,
    is_double=False,
    huber_loss_delta=1.0,
  ), model


def _make_ppo(task: rollouts.Task, spaces: gymnasium.Env):
  """Makes Tianshou's PPO from a task's values; returns it and its network."""
  body, critic_body = (
    common.Net(
      state_shape=spaces.observation_space.shape,
      hidden_sizes=task.hidden_sizes,
      activation=torch.nn.Tanh,
    )
    for _ in range(2)
  )
  actor = discrete.DiscreteActor(
    preprocess_net=body,
    action_shape=spaces.action_space.n,
    softmax_output=False,
  )
  policy = reinforce.DiscreteActorPolicy(
    actor=actor, action_space=spaces.action_space
  )
  return ppo.PPO(
    policy=policy,
    critic=discrete.DiscreteCritic(preprocess_net=critic_body),
    optim=optim.AdamOptimizerFactory(
      lr=task.learning_rate
    ).with_lr_scheduler_factory(_Decay(task)),
    eps_clip=task.clip,
    vf_coef=0.5,
    ent_coef=task.entropy_weight,
    max_grad_norm=0.5,
    gae_lambda=task.gae_lambda,
    gamma=task.discount,
  ), actor


def _make_sac(task: continuous.Task, spaces: gymnasium.Env) -> sac.SAC:
  """Makes Tianshou's SAC from a task's values."""
  shapes = {
    "state_shape": spaces.observation_space.shape,
    "hidden_sizes": task.hidden_sizes,
  }
  actions = spaces.action_space.shape
  policy = sac.SACPolicy(
    actor=continuous_nets.ContinuousActorProbabilistic(
      preprocess_net=common.Net(**shapes),
      action_shape=actions,
      unbounded=True,
      conditioned_sigma=True,
    ),
    action_space=spaces.action_space,
  )
  critics = [
    continuous_nets.ContinuousCritic(
      preprocess_net=common.Net(**shapes, action_shape=actions, concat=True)
    )
    for _ in range(2)
  ]
  adam = optim.AdamOptimizerFactory(lr=task.learning_rate)
  return sac.SAC(
    policy=policy,
    policy_optim=adam,
    critic=critics[0],
    critic_optim=adam,
    critic2=critics[1],
    critic2_optim=adam,
    tau=task.tau,
    gamma=task.discount,
    alpha=sac.AutoAlpha(-float(actions[0]), 0.0, adam),
  )


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("dqn", "ppo", "sac"))
  reporter = progress.Reporter(args.until, args.in_a_row)
  torch.set_num_threads(2 if args.variant == "sac" else 1)
  torch.manual_seed(args.seed)
  task = {"dqn": tasks, "ppo": rollouts, "sac": continuous}[args.variant].TASKS[
    args.task
  ]
  spaces = gymnasium.make(task.environment)
  if args.variant == "ppo":
    algorithm, network = _make_ppo(task, spaces)
    count, capacity = task.environments, task.batch_size
  elif args.variant == "dqn":
    algorithm, network = _make_dqn(task, spaces)
    count, capacity = _DQN_ENVIRONMENTS, task.capacity
  else:
    algorithm, network = _make_sac(task, spaces), None
    count, capacity = 1, task.capacity
  collector = Collector(
    algorithm,
    _make_environments(task.environment, count, args.seed),
    VectorReplayBuffer(capacity, count),
    exploration_noise=True,
  )
  before = 0  # environment steps before the first update
  if args.variant != "ppo":
    collector.reset()
    collector.collect(n_step=task.min_size, random=True)
    before = task.min_size

  @torch.no_grad()
  def act(observations):
    return network(observations)[0].argmax(dim=1).numpy()

  def begin_step(unused_epoch: int, env_steps: int) -> None:
    env_steps += before
    reporter.env_steps = env_steps
    if args.variant == "dqn":
      decay = min(1.0, env_steps / task.decay_steps)
      algorithm.policy.set_eps_training(1.0 - decay * (1.0 - task.epsilon_end))
    elif args.variant == "ppo":
      algorithm.eps_clip = task.clip * task.decay_factor(env_steps)
    if network and reporter.evaluation_due(task.evaluation_period):
      reporter.evaluate(lambda: greedy.play(task.environment, act))

  # Each update of SAC makes a step of four optimizers.
  steps_per_update = 4 if args.variant == "sac" else 1
  optimizer_steps = 0

  def count_update(*unused) -> None:
    nonlocal optimizer_steps
    optimizer_steps += 1
    reporter.updates = optimizer_steps // steps_per_update

  optimizers.register_optimizer_step_post_hook(count_update)
  shared = {
    "training_collector": collector,
    "max_epochs": 1,
    "epoch_num_steps": _EPOCH,
    "training_fn": begin_step,
    "logger": _Logger(reporter),
    "show_progress": False,
  }
  if args.variant == "ppo":
    algorithm.run_training(
      trainer.OnPolicyTrainerParams(
        **shared,
        collection_step_num_env_steps=task.batch_size,
        update_step_num_repetitions=task.epochs,
        batch_size=task.minibatch_size,
      )
    )
  algorithm.run_training(
    trainer.OffPolicyTrainerParams(
      **shared,
      collection_step_num_env_steps=count,
      update_step_num_gradient_steps_per_sample=1 / task.steps_per_update,
      batch_size=task.batch_size,
    )
  )


if __name__ == "__main__":
  main()
