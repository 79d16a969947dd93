"""Acting: the exploration of actor-critic algorithms."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import exploration as exploration_lib
from slipway.agents import policies
from slipway.agents.networks import numpy_ops
from slipway.environments import arrays
from slipway.replay.items import adder

# Lillicrap et al. 2016, section 7: theta of the Ornstein-Uhlenbeck process.
_REVERSION = 0.15


class Noise:
  """Noise on the actions of B environments, which are in [-1, 1]."""

  def __init__(
    self,
    exploration: ml_collections.ConfigDict,
    topology: ml_collections.ConfigDict,
    worker: int,
    shape: tuple[int, ...],
  ):
    """Starts at zero."""
    self._is_correlated = exploration.noise == "ornstein_uhlenbeck"
    positions = exploration_lib.find_ladder_positions(topology, worker)
    std, lowest = exploration.noise_std, exploration.lowest_noise_std
    own = std * (lowest / std if lowest else 1.0) ** positions
    self._std = own.reshape(-1, *[1] * len(shape)).astype(np.float32)
    self._state = np.zeros((len(own), *shape), np.float32)

  def sample(
    self, random: np.random.Generator, first: np.ndarray
  ) -> np.ndarray:
    """Returns the noise of the next step, float32 [B, *shape].

    x := (1 - theta) x + sqrt(1 - (1 - theta)^2) std e,  e ~ N(0, 1)
    """
    e = random.standard_normal(self._state.shape, np.float32)
    if not self._is_correlated:
      return self._std * e
    self._state[first] = 0.0
    kept = 1.0 - _REVERSION
    self._state *= kept
    self._state += np.float32(np.sqrt(1 - kept**2)) * self._std * e
    return self._state.copy()

  def get_state(self) -> np.ndarray:
    return self._state.copy()

  def set_state(self, state: np.ndarray) -> None:
    self._state[:] = state


class ExploringActor(policies.PolicyActor):
  """Acts at random first, then by the policy: samples, or modes with noise."""

  def __init__(
    self,
    policy: policies.Declaration,
    spec: specs.EnvironmentSpec,
    random: np.random.Generator,
    noise: Noise | None,
    random_steps: int,
    random_repeats: int,
    earlier_env_steps: int,
    with_log_prob: bool,
  ):
    """Starts without variables.

    Args:
      noise: noise on the modes of the policy, or None to sample from it.
      random_steps: steps of this worker's environments with random actions.
      random_repeats: steps for which each random action is repeated.
      with_log_prob: whether the extras have the log-density of each action,
        `policies.LOG_PROB`; only for policies that have a density.
    """
    super().__init__(policy, random)
    self._generator, self._spec = random, spec
    self._with_log_prob = with_log_prob
    self._noise, self._random_steps = noise, random_steps
    self._random_repeats = random_repeats
    self._repeated: np.ndarray | None = None  # the newest random actions
    # Counts one step per environment and call. Since that includes autoresets,
    # it slightly exceeds the number of environment steps.
    self._env_steps = earlier_env_steps

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    # Only a memory needs the network for random actions.
    if self._memory is None and self._is_random:
      return self._choose_randomly(observation)
    return super().act(observation, reward, first)

  def choose(
    self, parameters: np.ndarray, observation: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    if self._is_random:
      return self._choose_randomly(observation)
    self._env_steps += len(observation)
    policy = self._policy.head.distribution(numpy_ops, parameters)
    if self._noise is None:
      action = policy.sample(self._generator)
    else:
      noise = self._noise.sample(self._generator, first)
      action = np.clip(policy.mode() + noise, -1.0, 1.0)
    return self._make_output(action, policy)

  def get_state(self) -> dict[str, typing.Any]:
    return {
      **super().get_state(),
      "noise": self._noise and self._noise.get_state(),
      "env_steps": self._env_steps,
      "repeated": self._repeated,
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    super().set_state(state)
    self._env_steps = state["env_steps"]
    self._repeated = state["repeated"]
    if self._noise is not None:
      self._noise.set_state(state["noise"])

  @property
  def _is_random(self) -> bool:
    return self._env_steps < self._random_steps

  def _choose_randomly(self, observation: np.ndarray) -> adder.ActorOutput:
    """Returns random actions, the same ones for `random_repeats` calls."""
    calls = self._env_steps // len(observation)
    self._env_steps += len(observation)
    if self._repeated is None or calls % self._random_repeats == 0:
      self._repeated = arrays.sample_actions(
        self._spec.observations,
        self._spec.actions,
        observation,
        self._generator,
      )
    return self._make_output(self._repeated, None)

  def _make_output(
    self, action: np.ndarray, policy: typing.Any
  ) -> adder.ActorOutput:
    """Returns actions [B, ...], and log-densities [B] if these are stored."""
    if not self._with_log_prob:
      return adder.ActorOutput(action, {})
    if policy is None:
      log_prob = np.full(len(action), self._uniform_log_prob, np.float32)
    else:
      # The density of the stored action, which may be rounded to a bound, and
      # not that of the sample: the learner evaluates the stored one, too.
      log_prob = policy.log_prob(action)
    return adder.ActorOutput(action, {policies.LOG_PROB: log_prob})

  @property
  def _uniform_log_prob(self) -> float:
    """Log-density of uniformly random actions: -sum_a log(max_a - min_a)."""
    bounds = typing.cast(specs.BoundedArray, self._spec.actions)
    widths = np.broadcast_to(bounds.maximum - bounds.minimum, bounds.shape)
    return -float(np.log(widths).sum())
