"""Acme's DQN and D4PG: learn a task.

Variant `agent` is `acme.agents.tf.dqn.DQN`, all in one process. Variant
`distributed` runs the agent's learner, and two actors with adders, as processes
that Launchpad starts. It follows Acme's distributed agents, since Acme 0.4.0
has no distributed DQN on TensorFlow. Variant `d4pg` runs D4PG with four actors.
"""

# pyright: reportMissingImports=false, reportArgumentType=false

import acme
import pong
import progress
import reverb
import sonnet as snt
import tasks
import tensorflow as tf
import trfl
from absl import flags
from acme import datasets
from acme.adders import reverb as adders
from acme.agents.tf import actors, dqn
from acme.agents.tf.dqn import learning
from acme.tf import networks, variable_utils
from acme.tf import utils as tf2_utils
from acme.utils import counting, loggers

from benchmarks import dm_environment
from benchmarks.peers.acme import d4pg, distributed

_ACTORS = 2
_PRIORITY_EXPONENT = 0.6
_IMPORTANCE_EXPONENT = 0.2
_UPDATE_PERIOD = 1_000  # actor steps between two fetches of the variables


class _Environment(dm_environment.GymnasiumEnvironment):
  """A task's environment as a dm_env, which Acme's environment loop takes."""

  def __init__(self, name: str):
    if name != "pong":
      super().__init__(tasks.TASKS[name].environment)
      return
    # Pong's observations and rewards are converted like those of other tasks.
    self._environment = pong.make()
    self._ended = True

  def seed(self, seed: int) -> None:
    """Seeds the environment's random numbers for all later episodes."""
    self._environment.reset(seed=seed)


def _make_network(name: str, actions: int) -> snt.Module:
  sizes = [*tasks.TASKS[name].hidden_sizes, actions]
  if name != "pong":
    return snt.nets.MLP(sizes)
  return snt.Sequential(
    [
      lambda frames: tf.cast(frames, tf.float32) / 255.0,
      networks.AtariTorso(),
      snt.nets.MLP(sizes),
    ]
  )


def _make_policy(network: snt.Module, epsilon: tf.Variable) -> snt.Module:
  return snt.Sequential(
    [network, lambda q: trfl.epsilon_greedy(q, epsilon=epsilon).sample()]
  )


class _Counter(loggers.Logger):
  """A learner's logger, which counts updates: the learner logs each of them."""

  def __init__(self, reporter: progress.Reporter):
    self._reporter = reporter

  def write(self, values) -> None:
    self._reporter.updates += 1

  def close(self) -> None:
    pass


class _ReturnLogger(loggers.Logger):
  """An environment loop's logger, which reports the returns of episodes."""

  def __init__(self, reporter: progress.Reporter):
    self._reporter = reporter

  def write(self, values) -> None:
    self._reporter.add_return(float(values["episode_return"]))

  def close(self) -> None:
    pass


class _Steps:
  """An environment loop's observer: counts steps, sets epsilon, evaluates."""

  def __init__(self, reporter, task, epsilon: tf.Variable, play):
    self._reporter, self._task = reporter, task
    self._epsilon, self._play = epsilon, play

  def observe_first(self, *unused) -> None:
    pass

  def observe(self, *unused) -> None:
    self._reporter.env_steps += 1
    # Every 100 steps only, since assigning a variable takes 50 us.
    if self._reporter.env_steps % 100 == 0:
      progressed = min(1.0, self._reporter.env_steps / self._task.decay_steps)
      self._epsilon.assign(1.0 - progressed * (1.0 - self._task.epsilon_end))
    if self._reporter.evaluation_due(self._task.evaluation_period):
      self._reporter.evaluate(self._play)

  def get_metrics(self) -> dict:
    return {}


def _run_agent(args) -> None:
  """Runs variant `agent`, which acts and learns in this process."""
  task = tasks.TASKS[args.task]
  reporter = progress.Reporter(args.until, args.in_a_row)
  tf.random.set_seed(args.seed)
  environment = _Environment(args.task)
  environment.seed(args.seed)
  spec = acme.make_environment_spec(environment)
  network = _make_network(args.task, spec.actions.num_values)
  epsilon = tf.Variable(1.0, trainable=False)
  agent = dqn.DQN(
    spec,
    network,
    batch_size=task.batch_size,
    target_update_period=task.target_period,
    samples_per_insert=task.batch_size / task.steps_per_update,
    min_replay_size=task.min_size,
    max_replay_size=task.capacity,
    n_step=1,
    epsilon=epsilon,
    learning_rate=task.learning_rate,
    discount=task.discount,
    logger=_Counter(reporter),
    checkpoint=False,
    max_gradient_norm=10.0,
  )
  player = acme.EnvironmentLoop(
    _Environment(args.task),
    actors.FeedForwardActor(
      _make_policy(network, tf.Variable(0.0, trainable=False))
    ),
    logger=loggers.NoOpLogger(),
  )

  def play() -> list[float]:
    return [
      float(player.run_episode()["episode_return"])
      for _ in range(progress.EPISODES)
    ]

  acme.EnvironmentLoop(
    environment,
    agent,
    logger=_ReturnLogger(reporter),
    observers=[_Steps(reporter, task, epsilon, play)],
  ).run()


def _make_tables(name: str) -> list[reverb.Table]:
  """Makes a task's table, which limits the ratio of updates to steps."""
  task = tasks.TASKS[name]
  ratio = task.batch_size / task.steps_per_update
  return [
    reverb.Table(
      name=adders.DEFAULT_PRIORITY_TABLE,
      sampler=reverb.selectors.Prioritized(_PRIORITY_EXPONENT),
      remover=reverb.selectors.Fifo(),
      max_size=task.capacity,
      rate_limiter=reverb.rate_limiters.SampleToInsertRatio(
        ratio, task.min_size, error_buffer=0.5 * ratio * task.min_size
      ),
      signature=adders.NStepTransitionAdder.signature(
        acme.make_environment_spec(_Environment(name))
      ),
    )
  ]


def _make_learner(name: str, replay: reverb.Client, counter):
  task = tasks.TASKS[name]
  spec = acme.make_environment_spec(_Environment(name))
  online, target = (
    _make_network(name, spec.actions.num_values) for _ in range(2)
  )
  for network in (online, target):
    tf2_utils.create_variables(network, [spec.observations])
  return learning.DQNLearner(
    network=online,
    target_network=target,
    discount=task.discount,
    importance_sampling_exponent=_IMPORTANCE_EXPONENT,
    learning_rate=task.learning_rate,
    target_update_period=task.target_period,
    dataset=datasets.make_reverb_dataset(
      server_address=replay.server_address,
      batch_size=task.batch_size,
      prefetch_size=4,
    ),
    replay_client=replay,
    counter=counting.Counter(counter, "learner"),
    logger=loggers.NoOpLogger(),
    checkpoint=False,
    max_gradient_norm=10.0,
  )


def _make_actor(name: str, replay: reverb.Client, learner, counter):
  distributed.patch_reverb()  # in this process, which Launchpad has started
  flags.FLAGS.mark_as_parsed()
  task = tasks.TASKS[name]
  environment = _Environment(name)
  spec = acme.make_environment_spec(environment)
  network = _make_network(name, spec.actions.num_values)
  tf2_utils.create_variables(network, [spec.observations])
  client = variable_utils.VariableClient(
    learner, {"policy": network.trainable_variables}, _UPDATE_PERIOD
  )
  client.update_and_wait()
  epsilon = tf.Variable(task.epsilon_end, trainable=False)
  actor = actors.FeedForwardActor(
    _make_policy(network, epsilon),
    adders.NStepTransitionAdder(
      client=replay, n_step=1, discount=task.discount
    ),
    client,
  )
  return acme.EnvironmentLoop(
    environment,
    actor,
    counting.Counter(counter, "actor"),
    logger=loggers.NoOpLogger(),
  )


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("agent", "distributed", "d4pg"))
  flags.FLAGS.mark_as_parsed()  # Acme's loop reads Launchpad's flags
  if args.variant == "agent":
    distributed.patch_reverb()
    _run_agent(args)
  elif args.variant == "distributed":
    agent = distributed.Agent(_make_tables, _make_learner, _make_actor)
    distributed.run(agent, args, _ACTORS)
  else:
    d4pg.run(args)


if __name__ == "__main__":
  main()
