"""TorchRL's PPO and SAC, put together as in its own implementations: learn."""
# pyright: reportMissingImports=false

import continuous
import greedy
import gymnasium
import progress
import rollouts
import torch
from tensordict import nn as tensordict_nn
from torchrl import collectors, data, envs, modules, objectives
from torchrl.envs.libs import gym
from torchrl.objectives import utils, value

_PPO_LOSSES = ("loss_objective", "loss_critic", "loss_entropy")
_FRAMES = 50  # environment steps, and then as many updates, of SAC
_SAC_LOSSES = ("loss_actor", "loss_qvalue", "loss_alpha")


def _make_environments(task: rollouts.Task) -> envs.EnvBase:
  """Makes a vector of environments, which TorchRL wraps and resets."""
  environments = gymnasium.make_vec(
    task.environment,
    task.environments,
    vectorization_mode="sync",
    vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED},
  )
  return envs.TransformedEnv(
    gym.GymWrapper(
      environments, categorical_action_encoding=True, device="cpu"
    ),
    envs.RewardSum(),
  )


def _make_mlp(
  inputs: int,
  task: rollouts.Task | continuous.Task,
  outputs: int,
  activation: type[torch.nn.Module] = torch.nn.Tanh,
):
  """Makes an MLP with the hidden layers of a task."""
  return modules.MLP(
    in_features=inputs,
    out_features=outputs,
    num_cells=list(task.hidden_sizes),
    activation_class=activation,
  )


def _make_actor(network: torch.nn.Module, environments: envs.EnvBase):
  """Makes the policy, which samples actions from a network's logits."""
  return modules.ProbabilisticActor(
    tensordict_nn.TensorDictModule(
      network, in_keys=["observation"], out_keys=["logits"]
    ),
    in_keys=["logits"],
    spec=environments.full_action_spec_unbatched,
    distribution_class=torch.distributions.Categorical,
    return_log_prob=True,
  )


def _learn_ppo(
  reporter: progress.Reporter, task: rollouts.Task, seed: int
) -> None:
  """Learns a task by PPO, for ever."""
  environments = _make_environments(task)
  environments.set_seed(seed)
  inputs = environments.observation_spec["observation"].shape[-1]
  actions = environments.full_action_spec_unbatched["action"].space.n
  network = _make_mlp(inputs, task, actions)
  actor = _make_actor(network, environments)
  critic = modules.ValueOperator(_make_mlp(inputs, task, 1))
  advantages = value.GAE(
    gamma=task.discount, lmbda=task.gae_lambda, value_network=critic
  )
  loss = objectives.ClipPPOLoss(
    actor,
    critic,
    clip_epsilon=task.clip,
    entropy_coeff=task.entropy_weight,
    critic_coeff=0.5,
    loss_critic_type="l2",
    normalize_advantage=True,
  )
  optimizer = torch.optim.Adam(loss.parameters(), task.learning_rate, eps=1e-5)
  replay = data.TensorDictReplayBuffer(
    storage=data.LazyTensorStorage(task.batch_size),
    sampler=data.SamplerWithoutReplacement(),
    batch_size=task.minibatch_size,
  )

  @torch.no_grad()
  def act(observations):
    return network(torch.as_tensor(observations)).argmax(dim=1).numpy()

  for batch in collectors.Collector(
    environments, actor, frames_per_batch=task.batch_size, total_frames=-1
  ):
    reporter.env_steps += batch.numel()
    ended = batch["next"]
    for episode_return in ended["episode_reward"][ended["done"]].tolist():
      reporter.add_return(episode_return)
    decay = task.decay_factor(reporter.env_steps - task.batch_size)
    optimizer.param_groups[0]["lr"] = task.learning_rate * decay
    loss.clip_epsilon.fill_(task.clip * decay)
    with torch.no_grad():
      replay.extend(advantages(batch).reshape(-1))
    for _ in range(task.epochs):
      for minibatch in replay:
        losses = loss(minibatch)
        total = sum(x for name, x in losses.items() if name in _PPO_LOSSES)
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
        optimizer.step()
        reporter.updates += 1
    if reporter.evaluation_due(task.evaluation_period):
      reporter.evaluate(lambda: greedy.play(task.environment, act))


def _make_sac_loss(
  task: continuous.Task, environments: envs.EnvBase
) -> objectives.SACLoss:
  """Makes SAC's loss with its networks, whose temperature adapts."""
  inputs = environments.observation_spec["observation"].shape[-1]
  spec = environments.full_action_spec_unbatched["action"]
  (actions,) = spec.shape
  relu = torch.nn.ReLU
  actor = modules.ProbabilisticActor(
    tensordict_nn.TensorDictModule(
      torch.nn.Sequential(
        _make_mlp(inputs, task, 2 * actions, relu),
        tensordict_nn.NormalParamExtractor(),
      ),
      in_keys=["observation"],
      out_keys=["loc", "scale"],
    ),
    in_keys=["loc", "scale"],
    spec=spec,
    distribution_class=modules.TanhNormal,
    distribution_kwargs={"low": spec.space.low, "high": spec.space.high},
  )
  critic = modules.ValueOperator(
    _make_mlp(inputs + actions, task, 1, relu),
    in_keys=["action", "observation"],
  )
  loss = objectives.SACLoss(
    actor, critic, num_qvalue_nets=2, loss_function="l2"
  )
  loss.make_value_estimator(gamma=task.discount)
  return loss


def _learn_sac(
  reporter: progress.Reporter, task: continuous.Task, seed: int
) -> None:
  """Learns a task by SAC, from one environment, for ever."""
  environments = envs.TransformedEnv(
    gym.GymEnv(task.environment, device="cpu"), envs.DoubleToFloat()
  )
  environments.set_seed(seed)
  loss = _make_sac_loss(task, environments)
  targets = utils.SoftUpdate(loss, tau=task.tau)
  optimizer = torch.optim.Adam(loss.parameters(), task.learning_rate)
  replay = data.TensorDictReplayBuffer(
    storage=data.LazyTensorStorage(task.capacity), batch_size=task.batch_size
  )
  for batch in collectors.Collector(
    environments,
    loss.actor_network,
    frames_per_batch=_FRAMES,
    total_frames=-1,
    init_random_frames=task.min_size,
  ):
    reporter.env_steps += batch.numel()
    replay.extend(batch.reshape(-1))
    for _ in range(_FRAMES if reporter.env_steps > task.min_size else 0):
      losses = loss(replay.sample())
      optimizer.zero_grad()
      sum(x for name, x in losses.items() if name in _SAC_LOSSES).backward()
      optimizer.step()
      targets.step()
      reporter.updates += 1


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("ppo", "sac"))
  reporter = progress.Reporter(args.until, args.in_a_row)
  torch.set_num_threads(2 if args.variant == "sac" else 1)
  torch.manual_seed(args.seed)
  if args.variant == "sac":
    _learn_sac(reporter, continuous.TASKS[args.task], args.seed)
  else:
    _learn_ppo(reporter, rollouts.TASKS[args.task], args.seed)


if __name__ == "__main__":
  main()
