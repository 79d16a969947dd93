"""The collector: a worker's environments, actor and adder, step by step."""

import collections
import statistics
import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, seeds
from slipway.environments import factory, vector
from slipway.replay.items import adder as adder_lib

_RETURNS_KEPT = 20  # episodes


class Collector:
  """Steps a batch of environments and returns finished items."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
    worker: int,
    restarts: int = 0,
    env_steps: int = 0,
    environment: vector.VectorEnvironment | None = None,
  ):
    """Makes and resets the environments.

    Args:
      config: the whole config.
      spec: of one environment.
      builder: of the algorithm.
      worker: index of this worker, from 0: its seed and its exploration.
      restarts: processes that were this worker before: none repeats another's
        episodes.
      env_steps: environment steps that those made, from which exploration
        continues.
      environment: of `topology.environments_per_worker` environments, which
        the first step resets; None: the config's are made.
    """
    num_envs = config.topology.environments_per_worker
    self._before: vector.StepBatch | None = None  # that the next step follows
    if environment is None:
      environment = factory.make(
        config.environment,
        num_envs,
        seed=seeds.for_restart(config.seed * 1_000 + worker, restarts),
      )
      self._before = environment.reset()
    self._environment = environment
    self._actor = builder.make_actor(config, spec, worker, restarts, env_steps)
    self._adder = builder.make_adder(config, spec)
    self._episode_returns = np.zeros(num_envs)
    self._returns: collections.deque[float] = collections.deque(
      maxlen=_RETURNS_KEPT
    )
    self._version = 0  # of the variables; 0: none were loaded
    # Of all environments together, without autoresets; of this process.
    self.env_steps = 0
    self.episodes = 0  # that have ended; of this process

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
    """Acts once in every environment; returns the items that are complete."""
    before = self._before
    if before is None:
      before = self._environment.reset()
    output = self._actor.act(before.observation, before.reward, before.first)
    step = self._environment.step(output.action)
    items = self._adder.add(
      before.observation,
      output,
      step.reward,
      step.terminated,
      step.truncated,
      step.first,
      step.observation,
      self._version,
    )
    self._before = step
    self.env_steps += len(step.first) - int(np.count_nonzero(step.first))
    self._episode_returns += step.raw_reward
    ended = step.terminated | step.truncated
    if ended.any():
      self.episodes += int(np.count_nonzero(ended))
      self._returns.extend(self._episode_returns[ended].tolist())
      self._episode_returns[ended] = 0.0
    return items

  def get_state(self, with_environments: bool) -> dict[str, typing.Any]:
    """Returns what the next steps depend on, besides the variables.

    It can be pickled.

    Args:
      with_environments: whether the environments can be saved; otherwise the
        running episodes are left out.
    """
    running = None
    if with_environments:
      running = {
        "environment": self._environment.get_state(),
        "before": self._before,
        "episode_returns": self._episode_returns.copy(),
        "adder": self._adder.get_state(),
      }
    return {
      "running": running,
      "actor": self._actor.get_state(),
      "returns": list(self._returns),
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues as the collector of the same worker and config would have.

    Without its environments, it starts new episodes, and the transitions that
    were unfinished in the old ones are lost. `env_steps` and `episodes` stay.
    """
    self._actor.set_state(state["actor"])
    self._returns.extend(state["returns"])
    running = state["running"]
    if running is None:
      return
    self._environment.set_state(running["environment"])
    self._before = running["before"]
    self._episode_returns = running["episode_returns"]
    self._adder.set_state(running["adder"])

  def close(self) -> None:
    """Closes the environments."""
    self._environment.close()
