"""Filling: writes transitions to a table without a network."""

import typing
from collections.abc import Iterator

import ml_collections
import numpy as np

from slipway.replay.tables import table_spec

_WAIT_S = 10.0


class Step(typing.NamedTuple):
  """One step of B environments, in the form that adders take.

  Attributes:
    observation: observations before the step.  # [B, ...]
    action: actions.  # [B]
    values: values of the actions, and of the states.  # [2, B]
    reward: rewards.  # [B]
    terminated: whether each episode has terminated.  # [B]
    truncated: whether each episode was truncated.  # [B]
    first: whether each step is the first of an episode.  # [B]
    next_observation: observations after the step.  # [B, ...]
  """

  observation: np.ndarray  # before the step
  action: np.ndarray  # [B]
  values: np.ndarray  # [2, B] float32: of the action, and of the state
  reward: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray
  first: np.ndarray
  next_observation: np.ndarray


def make_table_spec(config: ml_collections.ConfigDict) -> table_spec.TableSpec:
  """Returns the spec of the table that a config's algorithm has.

  Raises:
    ValueError: the algorithm learns from recorded data, without a table.
  """
  from slipway.agents import registry
  from slipway.environments import factory

  if not config.topology.workers:
    raise ValueError(
      f"config.agent={config.agent!r} learns from recorded data, so it has no "
      "table to measure: choose an algorithm with workers"
    )
  return registry.make_builder(config.agent).make_table(
    config, factory.make_spec(config.environment)
  )


def fill(
  address: str,
  config: ml_collections.ConfigDict,
  spec,
  items: int,
  steps: Iterator[Step],
) -> None:
  """Writes transitions to a server's table, like a worker.

  Args:
    address: address of the server.
    config: the whole config, whose environments make the steps.
    spec: spec of the environment.
    items: least number of transitions to write.
    steps: endless iterator of steps.
  """
  from slipway.agents import epsilon_greedy, registry
  from slipway.replay.items import adder as adder_lib
  from slipway.replay.items import writer as writer_lib
  from slipway.replay.tables import tables
  from slipway.replay.transport import routes

  builder = registry.make_builder(config.agent)
  adder = builder.make_adder(config, spec)
  schema = make_table_spec(config).schema
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(address),
    tables.TRANSITIONS,
    schema.kept_frame_records(config.topology.environments_per_worker),
  )
  while writer.written * schema.transitions_per_item < items:
    observation, action, values, *outcome = next(steps)
    extras = (epsilon_greedy.VALUE_OF_ACTION, epsilon_greedy.VALUE_OF_STATE)
    output = adder_lib.ActorOutput(
      action, dict(zip(extras, values, strict=True))
    )
    made = adder.add(observation, output, *outcome, version=1)
    while not writer.wait(_WAIT_S):
      pass
    if made is not None:
      writer.write(*made)
  if not writer.close(_WAIT_S):
    raise TimeoutError(f"the table took no items within {_WAIT_S:.0f} s")


def noise(config: ml_collections.ConfigDict, spec) -> Iterator[Step]:
  """Yields random steps, without an environment and without episode ends.

  Args:
    config: the whole config.
    spec: spec of the environment; stacked observations advance by one frame.
  """
  from slipway.environments import arrays

  num_envs = config.topology.environments_per_worker
  shape = (num_envs, *spec.observations.shape)
  random = np.random.default_rng(0)
  no = np.zeros(num_envs, bool)

  def observe(before: np.ndarray | None) -> np.ndarray:
    if spec.observations.dtype != np.uint8:
      return random.standard_normal(shape, np.float32)
    observation = random.integers(0, 256, shape, np.uint8)
    if config.adder.stacked_frames and before is not None:
      observation[:, :-1] = before[:, 1:]
    return observation

  observation = observe(None)
  while True:
    before, observation = observation, observe(observation)
    action = arrays.sample_actions(
      spec.observations, spec.actions, before, random
    )
    values = random.random((3, num_envs), np.float32)
    yield Step(before, action, values[:2], values[2], no, no, no, observation)


def play(config: ml_collections.ConfigDict, spec) -> Iterator[Step]:
  """Yields steps of the config's environments with random actions.

  Args:
    config: the whole config.
    spec: spec of the environment.
  """
  from slipway.environments import arrays, factory

  num_envs = config.topology.environments_per_worker
  environment = factory.make(config.environment, num_envs, seed=0)
  random, before = np.random.default_rng(0), environment.reset()
  values = np.zeros((2, num_envs), np.float32)
  try:
    while True:
      action = arrays.sample_actions(
        spec.observations, spec.actions, before.observation, random
      )
      step = environment.step(action)
      yield Step(
        before.observation, action, values, *step[1:5], step.observation
      )
      before = step
  finally:
    environment.close()
