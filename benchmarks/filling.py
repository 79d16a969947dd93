"""Filling a table: transitions of steps that need no network."""

import typing
from collections.abc import Iterator

import ml_collections
import numpy as np

_WAIT_S = 10.0


class Step(typing.NamedTuple):
  """What an adder is told of one step of B environments."""

  observation: np.ndarray
  action: np.ndarray  # [B]
  values: np.ndarray  # [2, B] float32: of the action, and of the state
  reward: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray
  first: np.ndarray


def fill(
  address: str,
  config: ml_collections.ConfigDict,
  spec,
  items: int,
  steps: Iterator[Step],
) -> None:
  """Writes the transitions of steps, as a worker does.

  Args:
    address: of the server.
    config: the whole config; of its worker's environments are the steps.
    spec: of the environment.
    items: transitions to write, at least.
    steps: endless.
  """
  from agents import registry
  from replay import adder as adder_lib
  from replay import routes, tables
  from replay import writer as writer_lib

  builder = registry.make_builder(config.agent)
  adder = builder.make_adder(config, spec)
  layout = builder.make_layout(config, spec)
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(address),
    tables.TRANSITIONS,
    layout.kept_cells(config.topology.environments_per_worker),
  )
  while writer.written * layout.transitions_per_item < items:
    observation, action, values, *outcome = next(steps)
    decision = adder_lib.Decision(action, *values)
    made = adder.add(observation, decision, *outcome, version=1)
    while not writer.wait(_WAIT_S):
      pass
    if made is not None:
      writer.write(*made)
  if not writer.close(_WAIT_S):
    raise TimeoutError(f"the table took no items within {_WAIT_S:.0f} s")


def noise(config: ml_collections.ConfigDict, spec) -> Iterator[Step]:
  """Random steps, in one episode an environment.

  Args:
    config: the whole config.
    spec: of the environment; where observations are stacks, each is the one
      before moved on by one frame.
  """
  num_envs = config.topology.environments_per_worker
  shape = (num_envs, *spec.observations.shape)
  random = np.random.default_rng(0)
  no, before = np.zeros(num_envs, bool), None
  while True:
    if spec.observations.dtype == np.uint8:
      observation = random.integers(0, 256, shape, np.uint8)
      if config.adder.stacked_frames and before is not None:
        observation[:, :-1] = before[:, 1:]
    else:
      observation = random.standard_normal(shape, np.float32)
    before = observation
    action = random.integers(spec.actions.num_values, size=num_envs)
    values = random.random((3, num_envs), np.float32)
    yield Step(observation, action, values[:2], values[2], no, no, no)


def play(config: ml_collections.ConfigDict, spec) -> Iterator[Step]:
  """Steps of the config's environments by random actions.

  Args:
    config: the whole config.
    spec: of the environment.
  """
  from environments import factory

  num_envs = config.topology.environments_per_worker
  environment = factory.make(config.environment, num_envs, seed=0)
  random, before = np.random.default_rng(0), environment.reset()
  values = np.zeros((2, num_envs), np.float32)
  try:
    while True:
      action = random.integers(
        spec.actions.num_values, size=num_envs, dtype=np.int32
      )
      step = environment.step(action)
      yield Step(before.observation, action, values, *step[1:])
      before = step
  finally:
    environment.close()
