"""The collector: a worker's environments, actor and adder, step by step."""

import collections
import statistics
from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from agents import core
from environments import factory
from replay import adder as adder_lib

_RETURNS_KEPT = 20  # episodes


class Collector:
  """Steps a batch of environments and hands out finished transitions."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
    worker: int,
  ):
    """Makes and resets the environments.

    Args:
      config: the whole config.
      spec: of one environment.
      builder: of the algorithm.
      worker: index of this worker, from 0: its seed and its exploration.
    """
    num_envs = config.topology.environments_per_worker
    self._environment = factory.make(
      config.environment, num_envs, seed=config.seed * 1_000 + worker
    )
    self._actor = builder.make_actor(config, spec, worker)
    self._adder = builder.make_adder(config, spec)
    self._observation = self._environment.reset()  # [B, ...]
    self._episode_returns = np.zeros(num_envs)
    self._returns: collections.deque[float] = collections.deque(
      maxlen=_RETURNS_KEPT
    )
    self._version = 0  # of the variables; 0: none were loaded
    self.env_steps = 0  # without autoresets, of all environments together

  @property
  def training_return(self) -> float | None:
    """Mean return of the last episodes, explored ones; None before one."""
    return statistics.fmean(self._returns) if self._returns else None

  def load(self, version: int, variables: Mapping[str, np.ndarray]) -> None:
    """Acts on these variables from now on, and marks what it makes with them.

    Args:
      version: of the variables, from 1.
      variables: by name, as a learner's `get_variables` gives them.
    """
    self._actor.load(variables)
    self._version = version

  def step(self) -> adder_lib.Items | None:
    """Acts once in every environment; returns what transitions ended."""
    decision = self._actor.act(self._observation)
    step = self._environment.step(decision.action)
    items = self._adder.add(
      self._observation, decision, *step[1:], version=self._version
    )
    self._observation = step.observation
    self.env_steps += len(step.first) - int(np.count_nonzero(step.first))
    self._episode_returns += step.reward
    ended = step.terminated | step.truncated
    if ended.any():
      self._returns.extend(self._episode_returns[ended].tolist())
      self._episode_returns[ended] = 0.0
    return items

  def close(self) -> None:
    """Closes the environments."""
    self._environment.close()
