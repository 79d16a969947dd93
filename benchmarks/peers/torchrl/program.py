"""TorchRL's PPO, put together as in its own implementation: learns a task."""
# pyright: reportMissingImports=false

import greedy
import gymnasium
import progress
import rollouts
import torch
from tensordict import nn as tensordict_nn
from torchrl import collectors, data, envs, modules, objectives
from torchrl.envs.libs import gym
from torchrl.objectives import value

_LOSSES = ("loss_objective", "loss_critic", "loss_entropy")


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


def _make_mlp(inputs: int, task: rollouts.Task, outputs: int):
  """Makes an MLP with the hidden layers of a task."""
  return modules.MLP(
    in_features=inputs,
    out_features=outputs,
    num_cells=list(task.hidden_sizes),
    activation_class=torch.nn.Tanh,
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


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("ppo",))
  task = rollouts.TASKS[args.task]
  reporter = progress.Reporter(args.until, args.in_a_row)
  torch.set_num_threads(1)
  torch.manual_seed(args.seed)
  environments = _make_environments(task)
  environments.set_seed(args.seed)
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
        total = sum(x for name, x in losses.items() if name in _LOSSES)
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
        optimizer.step()
        reporter.updates += 1
    if reporter.evaluation_due(task.evaluation_period):
      reporter.evaluate(lambda: greedy.play(task.environment, act))


if __name__ == "__main__":
  main()
