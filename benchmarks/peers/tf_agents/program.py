"""TF-Agents' DQN with Reverb: learns a task by TF-Agents' actors and learner.

TF-Agents uses gym 0.23, which has LunarLander-v2.
"""
# pyright: reportMissingImports=false, reportArgumentType=false

import logging
import tempfile

import numpy as np
import progress
import reverb
import tasks
import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.environments import py_environment, suite_gym
from tf_agents.metrics import py_metrics
from tf_agents.networks import sequential
from tf_agents.policies import py_tf_eager_policy, random_py_policy
from tf_agents.replay_buffers import reverb_replay_buffer, reverb_utils
from tf_agents.specs import array_spec, tensor_spec
from tf_agents.train import actor, learner
from tf_agents.train.utils import train_utils
from tf_agents.trajectories import time_step
from tf_agents.utils import common

_TABLE = "uniform_table"


class _Pong(py_environment.PyEnvironment):
  """Pong from gymnasium, since gym 0.23 does not find Atari games."""

  def __init__(self, seed: int):
    super().__init__()
    # Imported here, since other tasks do not need the packages of Pong.
    import pong

    self._environment, self._seed = pong.make(), seed

  def observation_spec(self):
    return array_spec.BoundedArraySpec((84, 84, 4), np.uint8, 0, 255)

  def action_spec(self):
    last = int(self._environment.action_space.n) - 1
    return array_spec.BoundedArraySpec((), np.int64, 0, last)

  def _reset(self):
    observation, _ = self._environment.reset(seed=self._seed)
    self._seed = None  # only the first reset has a seed
    return time_step.restart(observation)

  def _step(self, action):
    if self.current_time_step().is_last():
      return self.reset()
    observation, reward, terminated, truncated, _ = self._environment.step(
      int(action)
    )
    reward = np.float32(np.sign(reward))
    if terminated:
      return time_step.termination(observation, reward)
    if truncated:
      return time_step.truncation(observation, reward)
    return time_step.transition(observation, reward)


def _make_environment(name: str, seed: int):
  if name == "pong":
    return _Pong(seed)
  task = tasks.TASKS[name]
  environment = suite_gym.load(task.environment.replace("-v3", "-v2"))
  environment.seed(seed)
  return environment


def _make_network(name: str, actions: int):
  task = tasks.TASKS[name]
  layers = [
    tf.keras.layers.Lambda(lambda x: tf.cast(x, tf.float32) / 255.0),
    tf.keras.layers.Conv2D(32, 8, 4, activation="relu"),
    tf.keras.layers.Conv2D(64, 4, 2, activation="relu"),
    tf.keras.layers.Conv2D(64, 3, 1, activation="relu"),
    tf.keras.layers.Flatten(),
  ]
  if name != "pong":
    layers = []
  layers += [
    tf.keras.layers.Dense(units, activation="relu")
    for units in task.hidden_sizes
  ]
  return sequential.Sequential([*layers, tf.keras.layers.Dense(actions)])


def _make_agent(environment, name: str, step, env_steps):
  """Makes TF-Agents' DQN for a task.

  Args:
    environment: the task's environment, which defines the specs.
    name: name of the task.
    step: variable that counts updates.
    env_steps: variable that counts environment steps, on which epsilon depends.
  """
  task = tasks.TASKS[name]
  time_step_spec = tensor_spec.from_spec(environment.time_step_spec())
  action_spec = tensor_spec.from_spec(environment.action_spec())

  def epsilon():
    progressed = tf.cast(env_steps, tf.float32) / task.decay_steps
    return tf.maximum(
      1.0 - (1.0 - task.epsilon_end) * progressed, task.epsilon_end
    )

  agent = dqn_agent.DqnAgent(
    time_step_spec,
    action_spec,
    q_network=_make_network(
      name, int(action_spec.maximum - action_spec.minimum + 1)
    ),
    epsilon_greedy=epsilon,
    target_update_period=task.target_period,
    optimizer=tf.keras.optimizers.Adam(task.learning_rate),
    td_errors_loss_fn=common.element_wise_huber_loss,
    gamma=task.discount,
    gradient_clipping=10.0,
    train_step_counter=step,
  )
  agent.initialize()
  agent.train = common.function(agent.train)
  return agent


def _start_server(task: tasks.Task):
  """Starts a Reverb server with the task's replay table."""
  return reverb.Server(
    [
      reverb.Table(
        _TABLE,
        max_size=task.capacity,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        rate_limiter=reverb.rate_limiters.MinSize(1),
      )
    ]
  )


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("default",))
  task = tasks.TASKS[args.task]
  reporter = progress.Reporter(args.until, args.in_a_row)
  logging.getLogger().setLevel(logging.ERROR)
  tf.random.set_seed(args.seed)
  environment = _make_environment(args.task, args.seed)
  step = train_utils.create_train_step()
  env_steps = tf.Variable(0, dtype=tf.int64)
  agent = _make_agent(environment, args.task, step, env_steps)
  server = _start_server(task)
  replay = reverb_replay_buffer.ReverbReplayBuffer(
    agent.collect_data_spec,
    sequence_length=2,
    table_name=_TABLE,
    local_server=server,
  )
  observer = reverb_utils.ReverbAddTrajectoryObserver(
    replay.py_client, _TABLE, sequence_length=2, stride_length=1
  )
  returns = py_metrics.AverageReturnMetric(buffer_size=1)
  episodes = py_metrics.NumberOfEpisodes()

  def count(trajectory) -> None:
    if not trajectory.is_boundary():
      reporter.env_steps += 1
    if trajectory.is_last():
      reporter.add_return(returns.result())

  def make_actor(policy, steps: int):
    return actor.Actor(
      environment,
      policy,
      step,
      steps_per_run=steps,
      observers=[observer, returns, episodes, count],
    )

  make_actor(
    random_py_policy.RandomPyPolicy(
      environment.time_step_spec(), environment.action_spec()
    ),
    task.min_size,
  ).run()
  collector = make_actor(
    py_tf_eager_policy.PyTFEagerPolicy(
      agent.collect_policy, use_tf_function=True
    ),
    task.steps_per_update,
  )
  dataset = replay.as_dataset(
    num_parallel_calls=3, sample_batch_size=task.batch_size, num_steps=2
  ).prefetch(3)
  trainer = learner.Learner(
    tempfile.mkdtemp(),
    step,
    agent,
    lambda: dataset,
    checkpoint_interval=10**9,
    summary_interval=10**9,
  )
  player = actor.Actor(
    _make_environment(args.task, args.seed + 1_000),
    py_tf_eager_policy.PyTFEagerPolicy(agent.policy, use_tf_function=True),
    step,
    episodes_per_run=progress.EPISODES,
    metrics=actor.eval_metrics(progress.EPISODES),
  )

  def play() -> list[float]:
    player.run()
    (result,) = [m.result() for m in player.metrics if "Return" in m.name]
    player.reset()
    return [float(result)]

  while True:
    collector.run()
    env_steps.assign(reporter.env_steps)
    trainer.run(iterations=1)
    reporter.updates += 1
    if reporter.evaluation_due(task.evaluation_period):
      reporter.evaluate(play)


if __name__ == "__main__":
  main()
