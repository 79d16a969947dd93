"""Collector: steps a worker's environments, actor and adder."""

import collections
import statistics
import time
import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, seeds
from slipway.environments import factory, saving, vector
from slipway.environments import specs as specs_lib
from slipway.launch.control import waits
from slipway.replay.items import adder as adder_lib
from slipway.replay.items import priorities

# Number of newest training episodes whose mean return is reported.
_RETURNS_KEPT = 20


class Collector:
  """Steps a worker's batch of environments, and forms items from the steps.

  Attributes:
    env_steps: environment steps of all environments since this process started;
      autoresets do not count.
    episodes: episodes that have ended since this process started.
    truncations: those of them that a limit has ended.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
    worker: int,
    restarts: int = 0,
    earlier_env_steps: int = 0,
    environment: vector.VectorEnvironment | None = None,
  ):
    """Makes the environments, the actor and the adder.

    Args:
      worker: index of the worker, from 0; sets its seed and exploration.
      restarts: number of earlier processes of this worker; each process uses
        another seed.
      earlier_env_steps: environment steps of the earlier processes, from which
        the exploration schedule continues.
      environment: a batch of `topology.environments_per_worker` environments,
        or None to make them from the config. The first step resets them, so
        that a reset that hangs is noticed.
    """
    num_envs = config.topology.environments_per_worker
    if environment is None:
      seed = seeds.for_worker(config.seed, worker, restarts)
      seeds.seed_global_generators(seed)
      environment = factory.make(
        config.environment, num_envs, seed, role="worker", worker=worker
      )
    self._environment = environment
    specs_lib.check_equal(self._environment.name, self._environment.spec, spec)
    # The newest step, with the observations that the actor acts on next; None
    # before the first reset.
    self._newest_step: vector.StepBatch | None = None
    self._actor = builder.make_actor(
      config, spec, worker, restarts, earlier_env_steps
    )
    self._adder = builder.make_adder(config, spec)
    self._recorder = None
    if config.recording.path:
      # Imported late: it takes 0.2 s.
      from slipway.environments import recorder

      self._recorder = recorder.make_for_worker(config, worker, environment)
    self._returns_so_far = np.zeros(num_envs)
    self._recent_returns: collections.deque[float] = collections.deque(
      maxlen=_RETURNS_KEPT
    )
    self._version = 0  # of the loaded variables; 0 before the first
    # First priority of all items, or None if the adder computes them.
    self._first_priority: float | None = None
    self._is_external = config.environment.external
    # Name of the newest call of the environments, and the monotonic seconds of
    # its begin until it returns.
    self._called: tuple[str, float | None] = ("reset", None)
    self.env_steps = 0
    self.episodes = 0
    self.truncations = 0

  @property
  def episodes_have_ended(self) -> bool:
    """Whether the newest step ended the episodes of all environments."""
    step = self._newest_step
    return step is not None and bool((step.terminated | step.truncated).all())

  @property
  def training_return(self) -> float | None:
    """Mean return of the last training episodes, or None before the first."""
    return (
      statistics.fmean(self._recent_returns) if self._recent_returns else None
    )

  @property
  def wait(self) -> waits.Wait | None:
    """The call of the environments that has not returned, if there is one.

    External processes step theirs when they like.
    """
    name, since_s = self._called
    if self._is_external:
      return None
    reason = f"{name}() of {self._environment.name} to return"
    return waits.since(reason, since_s)

  @property
  def unwritten(self) -> list[str]:
    """['episodes'] while a full disk rejects recorded episodes, else []."""
    is_failing = self._recorder is not None and self._recorder.is_failing
    return ["episodes"] if is_failing else []

  def load(self, version: int, variables: Mapping[str, np.ndarray]) -> None:
    """Loads variables into the actor; later items carry their version.

    Args:
      version: version of the variables, from 1.
      variables: arrays by name, as from a learner's `get_variables`.
    """
    self._actor.load(variables)
    self._version = version
    if priorities.HIGHEST in variables:
      self._first_priority = float(variables[priorities.HIGHEST])

  def step(self) -> adder_lib.Items | None:
    """Steps every environment once, with actions of the loaded variables.

    Returns:
      The items that the step completes, or None if it completes none.
    """
    before = self._newest_step
    if before is None:
      before = self._call("reset", self._environment.reset)
      if self._recorder is not None:
        self._recorder.add(None, before)
    output = self._actor.act(before.observation, before.reward, before.first)
    step = self._call("step", self._environment.step, output.action)
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
    if items is not None and self._first_priority is not None:
      first = np.full_like(items.priorities, self._first_priority)
      items = items._replace(priorities=first)
    if self._recorder is not None:
      self._recorder.add(output.action, step)
    self._newest_step = step
    self.env_steps += len(step.first) - int(np.count_nonzero(step.first))
    self._returns_so_far += step.raw_reward
    ended = step.terminated | step.truncated
    if ended.any():
      self.episodes += int(np.count_nonzero(ended))
      self.truncations += int(np.count_nonzero(ended & ~step.terminated))
      self._recent_returns.extend(self._returns_so_far[ended].tolist())
      self._returns_so_far[ended] = 0.0
    return items

  def _call(
    self,
    name: str,
    function: Callable[..., vector.StepBatch],
    *arguments: np.ndarray,
  ) -> vector.StepBatch:
    """Calls the environments, which may hang."""
    self._called = name, time.monotonic()
    try:
      return function(*arguments)
    finally:
      self._called = name, None

  def get_state(self, with_environments: bool) -> dict[str, typing.Any]:
    """Returns the state of actor, adder and environments, for pickling.

    Args:
      with_environments: whether to include environments and adder, and so the
        unfinished episodes. They are left out if pickling them fails.
    """
    unfinished = environment = None
    if with_environments:
      environment = saving.try_get_state(self._environment)
    if environment is not None:
      unfinished = {
        "environment": environment,
        "before": self._newest_step,
        "episode_returns": self._returns_so_far.copy(),
        "adder": self._adder.get_state(),
      }
    return {
      "running": unfinished,
      "actor": self._actor.get_state(),
      "returns": list(self._recent_returns),
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned for the same config.

    If the state has no environments, new episodes begin, and unfinished
    transitions are lost. `env_steps` and `episodes` do not change.

    Args:
      state: state of the worker with the same index.
    """
    self._actor.set_state(state["actor"])
    self._recent_returns.extend(state["returns"])
    unfinished = state["running"]
    if unfinished is None:
      return
    self._environment.set_state(unfinished["environment"])
    self._newest_step = unfinished["before"]
    self._returns_so_far = unfinished["episode_returns"]
    self._adder.set_state(unfinished["adder"])

  def close(self) -> None:
    """Writes recorded episodes, and closes the environments."""
    if self._recorder is not None:
      self._recorder.close()
    self._environment.close()
