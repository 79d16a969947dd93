"""Probe: measures a config's environment under random play.

found = probe.measure(config.environment)
found.rewards.low, found.lengths.mean, found.steps_per_s
"""

import dataclasses
import time
from typing import NamedTuple

import gymnasium
import ml_collections
import numpy as np

from slipway.environments import arrays, factory, saving, specs, vector

# Number of first steps that a second environment with the same seed repeats.
_REPEATED_STEPS = 100


class Span(NamedTuple):
  """Lowest, mean and highest of several numbers."""

  low: float
  mean: float
  high: float


@dataclasses.dataclass(frozen=True)
class Probe:
  """What random play shows of an environment.

  Steps at which an episode begins are no steps here. Rewards are the
  environment's own, before they are scaled or clipped for learning.

  Attributes:
    name: gymnasium id of the environment.
    spec: spec of one environment.
    observation_space: gymnasium space of observations.
    action_space: gymnasium space of actions.
    steps: environment steps that were played.
    rewards: rewards of single steps.
    rewarded_share: share of the steps whose reward is not zero.
    returns: sums of the rewards of finished episodes, or None if there is none.
    lengths: environment steps of finished episodes, or None if there is none.
    episodes: number of finished episodes.
    terminated_share: share of the finished episodes that the environment ended;
      a time limit truncated the others. 0 if there is none.
    longest_unfinished: environment steps of the longest episode that had not
      ended.
    observation_low: lowest value of each element of observations, without the
      action mask.  # [...]
    observation_high: the highest values.  # [...]
    legal_share: mean share of the actions that the masks allow; 1 without
      masks.
    steps_per_s: environment steps per second of one environment.
    batch_steps_per_s: environment steps per second of a batch of `batch_size`
      environments, all of them together.
    batch_size: number of environments of that batch.
    is_reproducible: whether another environment with the same seed repeats the
      first steps exactly.
    starts_vary: whether environments with other seeds began with other
      observations.
  """

  name: str
  spec: specs.EnvironmentSpec
  observation_space: gymnasium.Space
  action_space: gymnasium.Space
  steps: int
  rewards: Span
  rewarded_share: float
  returns: Span | None
  lengths: Span | None
  episodes: int
  terminated_share: float
  longest_unfinished: int
  observation_low: np.ndarray
  observation_high: np.ndarray
  legal_share: float
  steps_per_s: float
  batch_steps_per_s: float
  batch_size: int
  is_reproducible: bool
  starts_vary: bool


def measure(
  config: ml_collections.ConfigDict,
  seconds: float = 1.0,
  batch_size: int = 8,
  seed: int = 0,
) -> Probe:
  """Plays an environment with uniformly random actions, legal ones only.

  One environment plays for `seconds`, then a batch for as long, and another one
  repeats the first steps. A step that takes longer than that is waited for.

  Args:
    config: section `environment` of a config.
    seconds: duration of each of the two measurements, above 0.
    batch_size: number of environments of the batch, at least 2.
    seed: seed of environments and actions, at least 0.

  Raises:
    Exception: as `factory.make`, and as the environment's `reset`, `step` and
      `close`.
  """
  played = _Played()
  random = np.random.default_rng(seed)
  environment = factory.make(config, 1, seed)
  steps_per_s = played.play(environment, random, seconds)
  environment.close()
  batch = factory.make(config, batch_size, seed + 1)
  batch_steps_per_s = played.play(batch, random, seconds)
  batch.close()
  repeated = factory.make(config, 1, seed)
  is_reproducible = played.is_repeated_by(repeated)
  repeated.close()
  ended = len(played.lengths)
  count = max(played.steps, 1)
  return Probe(
    name=environment.name,
    spec=environment.spec,
    observation_space=environment.observation_space,
    action_space=environment.action_space,
    steps=played.steps,
    rewards=Span(played.lowest, played.reward_sum / count, played.highest),
    rewarded_share=played.rewarded / count,
    returns=_make_span(played.returns),
    lengths=_make_span(played.lengths),
    episodes=ended,
    terminated_share=played.terminated / max(ended, 1),
    longest_unfinished=played.longest_unfinished,
    observation_low=played.observation_low,
    observation_high=played.observation_high,
    legal_share=played.legal_sum / max(played.observations, 1),
    steps_per_s=steps_per_s,
    batch_steps_per_s=batch_steps_per_s,
    batch_size=batch_size,
    is_reproducible=is_reproducible,
    starts_vary=played.starts_vary,
  )


def _make_span(values: list[float]) -> Span | None:
  if not values:
    return None
  return Span(min(values), float(np.mean(values)), max(values))


class _Played:
  """Statistics of all steps that several batches have played."""

  def __init__(self):
    self.steps = self.observations = self.rewarded = self.terminated = 0
    self.longest_unfinished = 0
    self.reward_sum = self.legal_sum = 0.0
    self.lowest, self.highest = np.inf, -np.inf
    self.returns: list[float] = []
    self.lengths: list[float] = []
    self.observation_low = self.observation_high = np.zeros(())
    self.starts_vary = False
    # The first steps of the first batch, and the actions before them.
    self._first: list[tuple[np.ndarray | None, vector.StepBatch]] = []

  def play(
    self,
    environment: vector.VectorEnvironment,
    random: np.random.Generator,
    seconds: float,
  ) -> float:
    """Plays a batch for some seconds; returns its environment steps per second.

    The time of the batch alone counts, not that of actions and statistics.
    """
    keeps = not self._first
    returns = np.zeros(environment.num_envs)
    lengths = np.zeros(environment.num_envs, np.int64)
    stepped_s, before = 0.0, self.steps
    step = environment.reset()
    starts = step.observation
    self.starts_vary |= bool((starts != starts[:1]).any())
    self._add_observation(environment.spec, step.observation)
    if keeps:
      self._first.append((None, step))
    end_s = time.perf_counter() + seconds
    while self.steps == before or time.perf_counter() < end_s:
      actions = environment.sample_actions(step.observation, random)
      began_s = time.perf_counter()
      step = environment.step(actions)
      stepped_s += time.perf_counter() - began_s
      if keeps and len(self._first) <= _REPEATED_STEPS:
        self._first.append((actions, step))
      self._add_observation(environment.spec, step.observation)
      self._add_rewards(step)
      returns += step.raw_reward
      lengths += ~step.first
      for env in np.flatnonzero(step.terminated | step.truncated):
        self.returns.append(float(returns[env]))
        self.lengths.append(int(lengths[env]))
        self.terminated += int(step.terminated[env])
        returns[env], lengths[env] = 0.0, 0
    longest = int(lengths.max())
    self.longest_unfinished = max(self.longest_unfinished, longest)
    return (self.steps - before) / stepped_s

  def is_repeated_by(self, environment: vector.VectorEnvironment) -> bool:
    """Returns whether an environment repeats the first steps that were played.

    Only the first batch's steps are kept, whose seed it must have.
    """
    return all(
      saving.is_identical(
        step,
        environment.reset() if actions is None else environment.step(actions),
      )
      for actions, step in self._first
    )

  def _add_observation(
    self, spec: specs.EnvironmentSpec, observation: np.ndarray
  ) -> None:
    """Adds observations [B, ...] to the ranges."""
    if isinstance(spec.observations, arrays.MaskedArray):
      size = spec.observations.mask_size
      self.legal_sum += float(observation[:, -size:].mean(axis=1).sum())
      observation = observation[:, :-size]
    else:
      self.legal_sum += len(observation)
    low, high = observation.min(axis=0), observation.max(axis=0)
    if self.observations:
      low = np.minimum(low, self.observation_low)
      high = np.maximum(high, self.observation_high)
    self.observation_low, self.observation_high = low, high
    self.observations += len(observation)

  def _add_rewards(self, step: vector.StepBatch) -> None:
    """Adds the rewards of a step, but for those of resets."""
    rewards = step.raw_reward[~step.first]
    if not rewards.size:
      return
    self.steps += rewards.size
    self.reward_sum += float(rewards.sum())
    self.rewarded += int(np.count_nonzero(rewards))
    self.lowest = min(self.lowest, float(rewards.min()))
    self.highest = max(self.highest, float(rewards.max()))
