"""Dopamine's JAX DQN agent: learns a task.

Agent, replay and network are Dopamine's. Its runner reports no progress during
its phases of whole episodes, so this program makes the runner's calls.
"""
# pyright: reportMissingImports=false

import functools

import gymnasium
import jax
import numpy as np
import progress
import tasks
from dopamine.jax import networks
from dopamine.jax.agents.dqn import dqn_agent
from dopamine.jax.replay_memory import (
  accumulator,
  replay_buffer,
  samplers,
)


class _Agent(dqn_agent.JaxDQNAgent):
  """Dopamine's agent, with a task's values that are no arguments of it.

  These are learning rate, replay capacity and batch size.
  """

  def __init__(self, task: tasks.Task, **others):
    self._task = task
    super().__init__(**others)

  def _build_networks_and_optimizer(self):
    self._rng, rng = jax.random.split(self._rng)
    self.online_params = self.network_def.init(rng, x=self.state)
    self.optimizer = dqn_agent.create_optimizer(
      "adam", learning_rate=self._task.learning_rate, eps=1e-8
    )
    self.optimizer_state = self.optimizer.init(self.online_params)
    self.target_network_params = self.online_params

  def _build_replay_buffer(self):
    return replay_buffer.ReplayBuffer(
      transition_accumulator=accumulator.TransitionAccumulator(
        stack_size=self.stack_size,
        update_horizon=self.update_horizon,
        gamma=self.gamma,
      ),
      sampling_distribution=samplers.UniformSamplingDistribution(
        seed=self._seed
      ),
      max_capacity=self._task.capacity,
      batch_size=self._task.batch_size,
    )


def _make_agent(environment, task: tasks.Task, seed: int) -> _Agent:
  return _Agent(
    task,
    num_actions=int(environment.action_space.n),
    observation_shape=environment.observation_space.shape,
    observation_dtype=environment.observation_space.dtype,
    stack_size=1,
    network=functools.partial(
      networks.ClassicControlDQNNetwork,
      num_layers=len(task.hidden_sizes),
      hidden_units=task.hidden_sizes[0],
    ),
    gamma=task.discount,
    min_replay_history=task.min_size,
    update_period=task.steps_per_update,
    target_update_period=task.target_period * task.steps_per_update,
    epsilon_train=task.epsilon_end,
    epsilon_eval=0.0,
    epsilon_decay_period=task.decay_steps,
    loss_type="huber",
    seed=seed,
  )


def _play(agent: _Agent, environment) -> list[float]:
  """Plays greedy episodes one after the other, and returns their returns."""
  kept = agent.state, agent._observation, agent.action
  agent.eval_mode = True
  # The agent changes its state in place, so the kept state must be another one.
  agent.state = np.zeros_like(agent.state)
  returns = []
  for _ in range(progress.EPISODES):
    observation, _ = environment.reset()
    action = agent.begin_episode(observation)
    total, ended = 0.0, False
    while not ended:
      observation, reward, terminated, truncated, _ = environment.step(
        int(action)
      )
      total += float(reward)
      ended = terminated or truncated
      if not ended:
        action = agent.step(reward, observation)
    returns.append(total)
  agent.eval_mode = False
  agent.state, agent._observation, agent.action = kept
  return returns


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("default",))
  task = tasks.TASKS[args.task]
  reporter = progress.Reporter(args.until, args.in_a_row)
  environment = gymnasium.make(task.environment)
  evaluation_environment = gymnasium.make(task.environment)
  evaluation_environment.reset(seed=args.seed + 1_000)
  agent = _make_agent(environment, task, args.seed)
  observation, _ = environment.reset(seed=args.seed)
  while True:
    action = agent.begin_episode(observation)
    total, ended = 0.0, False
    while not ended:
      observation, reward, terminated, truncated, _ = environment.step(
        int(action)
      )
      total += float(reward)
      reporter.env_steps += 1
      since = agent.training_steps - task.min_size
      reporter.updates = max(0, since // task.steps_per_update)
      ended = terminated or truncated
      if ended:
        agent.end_episode(reward, terminated)
      else:
        action = agent.step(reward, observation)
      if reporter.evaluation_due(task.evaluation_period):
        reporter.evaluate(lambda: _play(agent, evaluation_environment))
    reporter.add_return(total)
    observation, _ = environment.reset()


if __name__ == "__main__":
  main()
