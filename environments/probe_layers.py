"""Probe layers: what each wrapper of an environment does to a step.

The innermost environment and all wrappers are recorded at once while random
actions are played, so a difference belongs to one wrapper.
"""

import dataclasses
import itertools
import math
import typing
from collections.abc import Callable, Sequence

import gymnasium
import ml_collections
import numpy as np

from slipway.environments import factory

_STEPS = 300  # of random play; fewer if the environment is slow
_SECONDS = 1.0  # about how long each of the two experiments takes
_REACTION_STEPS = 20  # over which two actions are compared
_MOST_COMPONENTS = 8  # of an action that are varied alone
# Factors of rewards that a wrapper may have.
_MIN_FACTOR, _MAX_FACTOR = 0.02, 50.0
# Beginning of the names of modules with gymnasium's own environments.
_GYMNASIUM = "gymnasium.envs."
# Part of the range that still does the same as all of it.
_SMALL_ACTION = 0.1


class LayerFault(typing.NamedTuple):
  """What a wrapper does to the steps of the environment that it wraps.

  Attributes:
    kind: 'reward sign', 'reward scale', 'action scale', 'seed', 'truncation',
      or 'termination'.
    wrapper: name of the wrapper's class.
    value: factor of the rewards, or part of the actions' range that it uses.
  """

  kind: str
  wrapper: str
  value: float = math.nan


@dataclasses.dataclass(frozen=True)
class Revealed:
  """What one environment revealed.

  Attributes:
    is_seeded: whether two resets with the same seed, and the same actions after
      them, gave the same observations.
    has_one_start: whether all episodes begin with the same real numbers,
      whatever the seed is.
    reaction: difference of observations and rewards after two different
      actions, as a part of their deviation; nan if unknown.
    small_is_large: whether a tenth of an action does the same as all of it.
    outside: part of the observations that are outside of the space by more than
      its size.
    faults: what the wrappers do.
  """

  is_seeded: bool
  has_one_start: bool
  reaction: float
  small_is_large: bool
  outside: float
  faults: Sequence[LayerFault]


@dataclasses.dataclass
class _Layer:
  """Records of one wrapper, or of the environment itself."""

  env: gymnasium.Env
  seeds: list[int | None] = dataclasses.field(default_factory=list)
  actions: list[typing.Any] = dataclasses.field(default_factory=list)
  rewards: list[float] = dataclasses.field(default_factory=list)
  ends: list[tuple[bool, bool]] = dataclasses.field(default_factory=list)
  # Whether the next step ends the episode, as a time limit does.
  truncates: bool = False


def reveal(config: ml_collections.ConfigDict, step_s: float) -> Revealed:
  """Steps one environment in experiments.

  Args:
    config: section `environment` of a config.
    step_s: seconds of a step, by which the number of steps is limited.

  Raises:
    Exception: as `factory.make_single`, and as the environment's methods.
  """
  env = factory.make_single(config, {})
  try:
    affordable = _SECONDS / max(step_s, 1e-9)
    steps = int(min(_STEPS, max(20, affordable)))
    env.action_space.seed(0)
    played, outside = _play(env, steps)
    count = int(min(_REACTION_STEPS, affordable / 10))
    is_seeded = _is_equal(
      *(_play_from(env, 1, _sample(env, 5)) for _ in range(2))
    )
    starts = [_flatten(env.reset(seed=seed)[0]) for seed in (1, 2, None, None)]
    reaction, small_is_large = math.nan, False
    if is_seeded and count >= 5:
      reaction, small_is_large = _compare_actions(
        env, count, played.std(axis=0)
      )
    derived = _compare_with_base(env.unwrapped, count)
    return Revealed(
      is_seeded=is_seeded,
      has_one_start=starts[0].dtype.kind == "f"
      and all(_is_equal(starts[0], x) for x in starts[1:])
      and len(np.unique(starts[0])) > 2,
      reaction=reaction,
      small_is_large=small_is_large,
      outside=outside,
      # The last experiment, since it changes the layers.
      faults=[*derived, *_find_faults(env, steps)],
    )
  finally:
    env.close()


def _sample(env: gymnasium.Env, count: int) -> list[typing.Any]:
  """Returns equal actions for equal arguments."""
  env.action_space.seed(3)
  return [env.action_space.sample() for _ in range(count)]


def _flatten(observation: typing.Any) -> np.ndarray:
  """Returns the numbers of an observation of any structure."""
  if isinstance(observation, dict):
    observation = tuple(observation.values())
  if isinstance(observation, tuple):
    return np.concatenate([_flatten(x) for x in observation] or [np.zeros(0)])
  found = np.array(observation).ravel()  # a copy, as environments may reuse it
  return found if found.dtype.kind in "biuf" else np.zeros(0)


def _is_equal(one: np.ndarray, other: np.ndarray) -> bool:
  return one.shape == other.shape and np.array_equal(one, other, equal_nan=True)


def _play_from(
  env: gymnasium.Env, seed: int, actions: Sequence[typing.Any]
) -> np.ndarray:
  """Returns observations and rewards after a seeded reset, [T, D + 1].

  They end with the episode. Observations of several shapes are left out.
  """
  steps = [(_flatten(env.reset(seed=seed)[0]), 0.0)]
  for action in actions:
    observation, reward, terminated, truncated, _ = env.step(action)
    steps.append((_flatten(observation), float(reward)))
    if terminated or truncated:
      break
  return _stack(steps)


def _stack(steps: Sequence[tuple[np.ndarray, float]]) -> np.ndarray:
  """Returns observations and rewards as float64 [T, D + 1]."""
  has_one_shape = len({x.shape for x, _ in steps}) == 1
  return np.array(
    [np.append(x if has_one_shape else (), reward) for x, reward in steps],
    np.float64,
  )


def _play(env: gymnasium.Env, steps: int) -> tuple[np.ndarray, float]:
  """Plays at random; returns `_stack` of the steps, and `Revealed.outside`."""
  found = [(env.reset(seed=0)[0], 0.0)]
  for _ in range(steps):
    observation, reward, terminated, truncated, _ = env.step(
      env.action_space.sample()
    )
    found.append((observation, float(reward)))
    if terminated or truncated:
      found.append((env.reset()[0], 0.0))
  space, outside = env.observation_space, 0
  if isinstance(space, gymnasium.spaces.Box):
    margin = np.maximum(space.high - space.low, 0.0)
    low, high = space.low - margin, space.high + margin
    outside = sum(bool(np.any((x < low) | (x > high))) for x, _ in found)
  return _stack([(_flatten(x), y) for x, y in found]), outside / len(found)


def _compare_actions(
  env: gymnasium.Env, count: int, deviation: np.ndarray
) -> tuple[float, bool]:
  """Returns `Revealed.reaction` and `Revealed.small_is_large`."""
  space = env.action_space

  def measure(one: typing.Any, other: typing.Any) -> float:
    x, y = (_play_from(env, 1, [action] * count) for action in (one, other))
    if x.shape != y.shape:
      return math.inf  # an episode has ended sooner
    return float((np.abs(x - y).max(axis=0) / (deviation + 1e-12)).max())

  if isinstance(space, gymnasium.spaces.Discrete):
    each = range(int(space.start), int(space.start + min(space.n, 6)))
    return max(measure(each[0], x) for x in each), False
  if not (
    isinstance(space, gymnasium.spaces.Box)
    and space.is_bounded()
    and space.dtype.kind == "f"
  ):
    return math.nan, False
  middle = ((space.low + space.high) / 2).astype(space.dtype)
  reactions = []
  for index in range(min(space.low.size, _MOST_COMPONENTS)):
    low, high = middle.copy(), middle.copy()
    low.flat[index] = space.low.flat[index]
    high.flat[index] = space.high.flat[index]
    reactions.append(measure(low, high))
  small_is_large = all(
    measure(middle + _SMALL_ACTION * (end - middle), end) < 1e-6
    for end in (space.low, space.high)
  )
  return max(reactions), small_is_large and max(reactions) > 0


def _compare_with_base(env: gymnasium.Env, count: int) -> list[LayerFault]:
  """Compares a user's class with the class of gymnasium from which it derives.

  Both make the same steps after the same reset.
  """
  bases = (x for x in type(env).__mro__ if x.__module__.startswith(_GYMNASIUM))
  base = next(bases, type(env))
  if base is type(env):
    return []
  outer, actions = _Layer(env), _sample(env, count)
  try:
    inner = _Layer(base(**(env.spec.kwargs if env.spec is not None else {})))
    for layer in (outer, inner):
      _record(layer)
      _play_from(layer.env, 1, actions)
    inner.env.close()
  except Exception:  # the class needs arguments or attributes of the user's
    return []
  finally:
    for name in ("step", "reset"):
      vars(env).pop(name, None)
  steps = min(len(outer.ends), len(inner.ends))
  for layer in (outer, inner):
    layer.rewards, layer.ends = layer.rewards[:steps], layer.ends[:steps]
  return _compare(outer, inner)


def _find_faults(env: gymnasium.Env, steps: int) -> list[LayerFault]:
  """Returns what each wrapper does, the outermost first."""
  found = [_Layer(env)]
  while isinstance(found[-1].env, gymnasium.Wrapper):
    found.append(_Layer(found[-1].env.env))
  for layer in found[1:]:
    _record(layer)
  outermost, innermost = found[0], found[-1]
  _record(outermost)
  env.reset(seed=0)
  for index in range(steps):
    # In the other half, episodes end as they do.
    innermost.truncates = index % 10 == 5 and index < steps / 2
    _, _, terminated, truncated, _ = env.step(env.action_space.sample())
    if terminated or truncated:
      env.reset(seed=index)
  pairs = itertools.pairwise(found)
  return [x for outer, inner in pairs for x in _compare(outer, inner)]


def _record(layer: _Layer) -> None:
  """Makes an environment record its calls and results."""
  env = layer.env
  step: Callable[..., typing.Any] = env.step
  reset: Callable[..., typing.Any] = env.reset

  def recorded_step(action: typing.Any) -> typing.Any:
    layer.actions.append(np.array(action))
    observation, reward, terminated, truncated, info = step(action)
    if layer.truncates:
      terminated, truncated, layer.truncates = False, True, False
    layer.rewards.append(float(reward))
    layer.ends.append((bool(terminated), bool(truncated)))
    return observation, reward, terminated, truncated, info

  def recorded_reset(*, seed=None, options=None) -> typing.Any:
    layer.seeds.append(seed)
    return reset(seed=seed, options=options)

  env.step, env.reset = recorded_step, recorded_reset


def _compare(outer: _Layer, inner: _Layer) -> list[LayerFault]:
  """Returns what a wrapper does, by its records and the inner ones."""
  name, faults = type(outer.env).__name__, []
  if len(outer.seeds) == len(inner.seeds) and outer.seeds != inner.seeds:
    faults.append(LayerFault("seed", name))
  # A wrapper that repeats actions steps more often: its sums are no factor.
  if len(outer.ends) != len(inner.ends):
    return faults
  cut = [
    x for x, y in zip(outer.ends, inner.ends, strict=True) if y == (False, True)
  ]
  if cut and sum(terminated for terminated, _ in cut) > len(cut) / 2:
    faults.append(LayerFault("truncation", name))
  failed = [x for x, y in zip(outer.ends, inner.ends, strict=True) if y[0]]
  if failed and sum(terminated for terminated, _ in failed) < len(failed) / 2:
    faults.append(LayerFault("termination", name))
  one, other = np.array(inner.rewards), np.array(outer.rewards)
  if one.any() and other.any():
    factor = float((one @ other) / (one @ one))
    is_linear = np.allclose(
      other, factor * one, atol=1e-6 * np.abs(other).max()
    )
    if factor < 0 and (is_linear or np.corrcoef(one, other)[0, 1] < -0.9):
      faults.append(LayerFault("reward sign", name, factor))
    elif is_linear and not _MIN_FACTOR <= factor <= _MAX_FACTOR:
      faults.append(LayerFault("reward scale", name, factor))
  used, given = _measure_range(inner), _measure_range(outer)
  if used is None or given is None:
    return faults
  if not 0.1 * min(given, 1.0) <= used <= 3 * max(given, 1.0):
    faults.append(LayerFault("action scale", name, used))
  if _measure_saturation(inner) > 0.8 > _measure_saturation(outer):
    faults.append(LayerFault("action scale", name, math.inf))
  return faults


def _measure_range(layer: _Layer) -> float | None:
  """Returns the part of their range that the recorded actions have, or None."""
  space = layer.env.action_space
  if not (
    isinstance(space, gymnasium.spaces.Box)
    and space.is_bounded()
    and len(layer.actions) > 5
  ):
    return None
  actions = np.stack(layer.actions).astype(np.float64)
  extent = actions.max(axis=0) - actions.min(axis=0)
  return float((extent / np.maximum(space.high - space.low, 1e-12)).max())


def _measure_saturation(layer: _Layer) -> float:
  """Returns the part of the recorded actions at the ends of their range."""
  space, actions = layer.env.action_space, np.stack(layer.actions)
  is_at_end = np.isclose(actions, space.low) | np.isclose(actions, space.high)
  return float(is_at_end.mean())
