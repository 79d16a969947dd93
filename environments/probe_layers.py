"""Probe layers: finds the wrapper of an environment that is at fault.

All wrappers, and the environment inside, are recorded at once while random
actions are played, so a difference between two of them belongs to one wrapper.
"""

import copy
import itertools
import math
import typing

import gymnasium
import ml_collections
import numpy as np

from slipway.environments import arrays, factory, ids, random_play

_STEPS, _LEAST_STEPS = 300, 40  # of random play
_SECONDS = 1.0  # about how long a slow environment is played
# Factors of rewards that a wrapper may have.
_MIN_FACTOR, _MAX_FACTOR = 0.02, 50.0
# Standard deviations of random actions, as a part of the range of the action
# space. Uniform ones have 0.29, and those at the ends of the range 0.5.
_MIN_SPREAD, _MAX_SPREAD = 0.05, 0.45


class _Recorder(gymnasium.Wrapper):
  """Records the calls of the environment inside, and their results."""

  def __init__(self, env: gymnasium.Env):
    super().__init__(env)
    self.seeds: list[int | None] = []
    self.actions: list[typing.Any] = []
    # Reward, terminated and truncated of each step.
    self.results: list[tuple[float, bool, bool]] = []
    # Whether the next step ends the episode, as a time limit does.
    self.truncates = False

  def reset(self, *, seed=None, options=None):
    self.seeds.append(seed)
    return self.env.reset(seed=seed, options=options)

  def step(self, action):
    self.actions.append(copy.deepcopy(action))
    observation, reward, terminated, truncated, info = self.env.step(action)
    if self.truncates:
      terminated, truncated, self.truncates = False, True, False
    self.results.append((float(reward), bool(terminated), bool(truncated)))
    return observation, reward, terminated, truncated, info


def find_faults(
  config: ml_collections.ConfigDict, probe: random_play.Probe
) -> dict[str, str]:
  """Steps one environment, and compares each wrapper with the one inside.

  Environments with action masks, and those that only exist as batches, are not
  examined.

  Args:
    config: section `environment` of a config.

  Returns:
    A sentence by the name of each fault: 'reward sign', 'reward scale',
    'truncation', 'seed' or 'action scale'.

  Raises:
    Exception: as `factory.make_single`, and as the environment's methods.
  """
  is_masked = isinstance(probe.spec.observations, arrays.MaskedArray)
  if is_masked or not ids.has_single(ids.find_spec(probe.name)):
    return {}
  layers = [_Recorder(factory.make_single(config, {}))]
  while isinstance(wrapper := layers[-1].env, gymnasium.Wrapper):
    wrapper.env = _Recorder(wrapper.env)
    layers.append(wrapper.env)
  env = layers[0]
  try:
    env.action_space.seed(0)
    env.reset(seed=0)
    steps = int(min(_STEPS, max(_LEAST_STEPS, _SECONDS / probe.step_s)))
    for index in range(steps):
      # In the other half, episodes end as they do.
      layers[-1].truncates = index % 10 == 5 and index < steps / 2
      _, _, terminated, truncated, _ = env.step(env.action_space.sample())
      if terminated or truncated:
        env.reset(seed=index)
  finally:
    env.close()
  faults = {}
  for outer, inner in itertools.pairwise(layers):
    faults |= _compare(outer, inner)
  return faults


def _compare(outer: _Recorder, inner: _Recorder) -> dict[str, str]:
  """Returns the faults of the wrapper between two recorders."""
  name, faults = type(outer.env).__name__, {}
  if len(outer.seeds) == len(inner.seeds) and outer.seeds != inner.seeds:
    faults["seed"] = (
      f"{name} does not pass the seed of reset() on, so runs can't be "
      "repeated, or all episodes are equal"
    )
  # A wrapper that repeats actions steps more often: its sums are no factor.
  if len(outer.results) != len(inner.results):
    return faults
  rewards, ended, _ = np.array(outer.results, np.float64).T
  inner_rewards, inner_ended, inner_cut = np.array(inner.results, np.float64).T
  is_cut = inner_cut > inner_ended
  if ended[is_cut].sum() > is_cut.sum() / 2:
    faults["truncation"] = (
      f"{name} turns truncations of episodes into terminations, so good states "
      "at a limit get a value of 0: return truncated=True there"
    )
  if inner_rewards.any() and rewards.any():
    factor = (inner_rewards @ rewards) / (inner_rewards @ inner_rewards)
    errors = np.abs(rewards - factor * inner_rewards)
    is_linear = errors.max() < 1e-6 * np.abs(rewards).max()
    if is_linear and factor < 0:
      faults["reward sign"] = (
        f"{name} turns rewards into costs (factor {factor:.3g}): if they are "
        "no costs inside, remove the sign"
      )
    elif is_linear and not _MIN_FACTOR <= factor <= _MAX_FACTOR:
      faults["reward scale"] = f"{name} multiplies rewards by {factor:.3g}, so "
  spread, inner_spread = _measure_spread(outer), _measure_spread(inner)
  if _MIN_SPREAD <= spread <= _MAX_SPREAD and (
    inner_spread < _MIN_SPREAD or inner_spread > _MAX_SPREAD
  ):
    faults["action scale"] = (
      f"{name} turns random actions into ones that deviate by "
      f"{inner_spread:.2g} of their range (uniform: 0.29), so the policy can't "
      "choose well: let it use the bounds of the action space"
    )
  return faults


def _measure_spread(layer: _Recorder) -> float:
  """Returns the deviation of actions as a part of their range, nan without."""
  space = layer.action_space
  if not isinstance(space, gymnasium.spaces.Box) or not space.is_bounded():
    return math.nan
  extent = np.maximum(space.high - space.low, 1e-12)
  return float((np.std(layer.actions, axis=0) / extent).max())
