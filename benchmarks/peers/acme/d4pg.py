"""Acme's distributed D4PG, whose builder makes all parts of its processes."""

# pyright: reportMissingImports=false, reportArgumentType=false

import copy
import typing
from collections.abc import Callable

import acme
import continuous
import gymnasium
import numpy as np
import progress
import reverb
import sonnet as snt
import tensorflow as tf
from absl import flags
from acme import wrappers
from acme.agents.tf import d4pg
from acme.tf import variable_utils
from acme.utils import counting, loggers

from benchmarks import dm_environment
from benchmarks.peers.acme import distributed

_ACTORS = 4


def run(args: typing.Any) -> None:
  """Runs D4PG's processes until they are killed.

  Args:
    args: flags of the program.
  """
  agent = distributed.Agent(
    _make_tables,
    _make_learner,
    _make_actor,
    _make_player,
    continuous.TASKS[args.task].evaluation_period,
  )
  distributed.run(agent, args, _ACTORS)


def _make_environment(name: str) -> wrappers.CanonicalSpecWrapper:
  """Makes a task's environment, whose actions are in [-1, 1]."""
  return wrappers.CanonicalSpecWrapper(
    dm_environment.GymnasiumEnvironment(continuous.TASKS[name].environment)
  )


def _make_builder(name: str) -> d4pg.agent.D4PGBuilder:
  task = continuous.TASKS[name]
  return d4pg.agent.D4PGBuilder(
    d4pg.agent.D4PGConfig(
      discount=task.discount,
      batch_size=task.batch_size,
      policy_optimizer=snt.optimizers.Adam(task.learning_rate),
      critic_optimizer=snt.optimizers.Adam(task.learning_rate),
      min_replay_size=task.min_size,
      max_replay_size=task.capacity,
      samples_per_insert=task.batch_size / task.steps_per_update,
      n_step=task.n_step,
      sigma=task.noise_std,
    )
  )


def _make_networks(name: str, spec) -> d4pg.agent.D4PGNetworks:
  """Makes Acme's networks with a task's layers and support of returns."""
  task = continuous.TASKS[name]
  made = d4pg.make_default_networks(
    spec.actions,
    policy_layer_sizes=task.hidden_sizes,
    critic_layer_sizes=task.hidden_sizes,
    vmin=task.lowest_return,
    vmax=task.highest_return,
    num_atoms=task.atoms,
  )
  return d4pg.agent.D4PGNetworks(
    made["policy"], made["critic"], made["observation"]
  )


def _make_tables(name: str) -> list[reverb.Table]:
  spec = acme.make_environment_spec(_make_environment(name))
  return _make_builder(name).make_replay_tables(spec)


def _make_learner(name: str, replay: reverb.Client, counter):
  builder = _make_builder(name)
  spec = acme.make_environment_spec(_make_environment(name))
  online = _make_networks(name, spec)
  target = copy.deepcopy(online)
  for networks in (online, target):
    networks.init(spec)
  return builder.make_learner(
    (online, target),
    builder.make_dataset_iterator(replay),
    counting.Counter(counter, "learner"),
    loggers.NoOpLogger(),
  )


def _make_actor(name: str, replay: reverb.Client, learner, counter):
  distributed.patch_reverb()  # in this process, which Launchpad has started
  flags.FLAGS.mark_as_parsed()
  builder = _make_builder(name)
  environment = _make_environment(name)
  spec = acme.make_environment_spec(environment)
  networks = _make_networks(name, spec)
  networks.init(spec)
  return acme.EnvironmentLoop(
    environment,
    builder.make_actor(
      networks.make_policy(spec, continuous.TASKS[name].noise_std),
      builder.make_adder(replay),
      learner,
    ),
    counting.Counter(counter, "actor"),
    logger=loggers.NoOpLogger(),
  )


def _make_player(name: str, learner) -> Callable[[], float]:
  """Makes a function that plays greedy episodes, and returns their mean return.

  All episodes are played at once, which takes a fraction of the time of Acme's
  evaluator. Each ends at the environment's time limit.

  Args:
    name: name of the task.
    learner: client of the learner.
  """
  spec = acme.make_environment_spec(_make_environment(name))
  networks = _make_networks(name, spec)
  networks.init(spec)
  policy = networks.make_policy(spec)
  client = variable_utils.VariableClient(learner, {"policy": policy.variables})
  act = tf.function(policy)
  environments = gymnasium.make_vec(
    continuous.TASKS[name].environment, progress.EPISODES
  )
  space = environments.single_action_space

  def play() -> float:
    client.update_and_wait()
    observations, _ = environments.reset()
    returns, ended = np.zeros(progress.EPISODES), False
    while not ended:
      actions = 0.5 * (act(observations).numpy() + 1.0)
      observations, rewards, terminated, truncated, _ = environments.step(
        space.low + actions * (space.high - space.low)
      )
      returns += rewards
      ended = bool(np.all(terminated | truncated))
    return float(np.mean(returns))

  return play
