"""Random play: plays an environment at random, once, and measures it.

`slipway envs` shows the measurements; `slipway doctor` compares them with a
run's config.

found = random_play.play(config.environment)
found.raw_rewards.max(), found.lengths, found.steps_per_s
"""

import contextlib
import dataclasses
import time

import gymnasium
import ml_collections
import numpy as np
from acme import specs

from slipway.environments import arrays, factory, saving, vector

ENVIRONMENTS = 4  # played as one batch
# Steps of the batch; fewer if they take more than `seconds` of processor time,
# or several times as long.
_STEPS, _LEAST_STEPS, _PATIENCE = 1_500, 20, 4.0
# Part of the steps that another batch with the same seed repeats.
_REPEATED = 0.25
# Numbers of observation and action that may be fitted, and steps that must be.
_MOST_FEATURES, _FITTED_STEPS = 20, 400
# A number needs its previous change, if its next one is unexplained to this
# degree without it, and by this factor better with it.
_UNEXPLAINED, _EXPLAINED_BY_PREVIOUS = 0.25, 0.15

# Actions, None before the reset, and the step that followed them.
_Steps = list[tuple[np.ndarray | None, vector.StepBatch]]


@dataclasses.dataclass(frozen=True)
class Probe:
  """Measurements of random play, in whose counts resets are no steps.

  Attributes:
    name: gymnasium id of the environment.
    spec: spec of one environment.
    observation_space: gymnasium space of observations.
    action_space: gymnasium space of actions.
    steps: environment steps of the whole batch.
    step_s: median seconds of a step of one environment.
    steps_per_s: environment steps per second of the batch, with its resets.
    observation_low: lowest value of each element of the observations, [...].
    observation_high: the highest values, [...].
    observation_scale: root mean square of each number, [D]; empty for images
      and with action masks.
    legal_share: mean share of the actions that masks allow; 1 without masks.
    rewards: rewards for learning, [N].
    raw_rewards: the environment's own rewards, [N].
    returns: sums of raw rewards of the complete episodes.
    lengths: steps of the complete episodes.
    terminations: number of these episodes that have ended by termination.
    longest_unfinished: steps of the longest episode that had not ended.
    unpredictable: part of the observations' changing numbers that need the
      previous observation to be predicted; nan if unknown.
    is_reproducible: whether another batch with the same seed does the same.
    starts_vary: whether environments with other seeds began their episodes with
      other observations.
  """

  name: str
  spec: specs.EnvironmentSpec
  observation_space: gymnasium.Space
  action_space: gymnasium.Space
  steps: int
  step_s: float
  steps_per_s: float
  observation_low: np.ndarray
  observation_high: np.ndarray
  observation_scale: np.ndarray
  legal_share: float
  rewards: np.ndarray
  raw_rewards: np.ndarray
  returns: list[float]
  lengths: list[int]
  terminations: int
  longest_unfinished: int
  unpredictable: float
  is_reproducible: bool
  starts_vary: bool


def play(config: ml_collections.ConfigDict, seconds: float = 1.0) -> Probe:
  """Plays uniformly random actions, legal ones only.

  Args:
    config: section `environment` of a config.
    seconds: processor time for which to play; twenty steps of each environment
      are played at least.

  Raises:
    Exception: as `factory.make`, and as the environment's `reset`, `step` and
      `close`.
  """
  with contextlib.closing(factory.make(config, ENVIRONMENTS, seed=0)) as batch:
    played, times_s = _play(batch, seconds)
  with contextlib.closing(
    factory.make(config, ENVIRONMENTS, seed=0)
  ) as repeated:
    is_reproducible = all(
      saving.is_identical(
        step, repeated.reset() if actions is None else repeated.step(actions)
      )
      for actions, step in played[: int(_REPEATED * len(played))]
    )
  return _measure(batch, played, times_s, is_reproducible)


def _play(
  environment: vector.VectorEnvironment, seconds: float
) -> tuple[_Steps, list[float]]:
  """Returns actions and steps, the reset first, and the steps' seconds."""
  random = np.random.default_rng(0)
  step = environment.reset()
  played: _Steps = [(None, step)]
  times_s: list[float] = []
  began_s, used_s = time.monotonic(), time.process_time()
  while len(played) <= _STEPS:
    # Time for which other programs keep the processor does not count.
    if len(played) > _LEAST_STEPS and (
      time.process_time() - used_s > seconds
      or time.monotonic() - began_s > _PATIENCE * seconds
    ):
      break
    actions = environment.sample_actions(step.observation, random)
    since_s = time.monotonic()
    step = environment.step(actions)
    times_s.append(time.monotonic() - since_s)
    played.append((actions, step))
  return played, times_s


def _measure(
  batch: vector.VectorEnvironment,
  played: _Steps,
  times_s: list[float],
  is_reproducible: bool,
) -> Probe:
  """Returns the measurements of steps that were played."""
  spec = batch.spec
  # All steps, [T + 1, B, ...].
  columns = zip(*(step for _, step in played), strict=True)
  step = vector.StepBatch(*map(np.stack, columns))
  is_step = ~step.first
  starts, returns, lengths, terminations, unfinished = [], [], [], 0, 0
  for env in range(batch.num_envs):
    begin = 0
    ended = step.terminated[:, env] | step.truncated[:, env]
    for end in np.flatnonzero(ended):
      lengths.append(int(is_step[begin : end + 1, env].sum()))
      returns.append(float(step.raw_reward[begin : end + 1, env].sum()))
      terminations += int(step.terminated[end, env])
      begin = end + 1
    unfinished = max(unfinished, int(is_step[begin:, env].sum()))
    starts.append(step.observation[step.first[:, env], env])
  count = min(map(len, starts))
  observations, legal_share = step.observation, 1.0
  flat, unpredictable = np.zeros((1, 0)), np.nan
  if isinstance(spec.observations, arrays.MaskedArray):
    size = spec.observations.mask_size
    legal_share = float(observations[..., -size:].mean())
    observations = observations[..., :-size]
  elif observations.ndim == 3 and observations.dtype.kind == "f":
    flat = observations.reshape(-1, observations.shape[-1]).astype(np.float64)
    unpredictable = _measure_hidden_state(played, observations, step.first)
  return Probe(
    name=batch.name,
    spec=spec,
    observation_space=batch.observation_space,
    action_space=batch.action_space,
    steps=int(is_step.sum()),
    step_s=float(np.median(times_s)) / batch.num_envs,
    steps_per_s=float(is_step.sum() / np.sum(times_s)),
    observation_low=observations.min(axis=(0, 1)),
    observation_high=observations.max(axis=(0, 1)),
    observation_scale=np.sqrt((flat**2).mean(axis=0)),
    legal_share=legal_share,
    rewards=step.reward[is_step],
    raw_rewards=step.raw_reward[is_step],
    returns=returns,
    lengths=lengths,
    terminations=terminations,
    longest_unfinished=unfinished,
    unpredictable=unpredictable,
    is_reproducible=is_reproducible,
    starts_vary=any((x[:count] != starts[0][:count]).any() for x in starts[1:]),
  )


def _measure_hidden_state(
  played: _Steps, observations: np.ndarray, first: np.ndarray
) -> float:
  """Returns `Probe.unpredictable`, given all steps, [T + 1, B, ...]."""
  # The next change of each number is fitted to the products of observation and
  # action, with and without the previous change and action.
  x = observations.astype(np.float64)
  actions = np.stack([x for x, _ in played[1:] if x is not None])
  actions = actions.reshape(*x[1:, :, 0].shape, -1)
  changes = np.diff(x, axis=0)  # [T, B, D]
  kept = ~first[1:-1] & ~first[2:]
  target = changes[1:][kept]  # [N, D]
  previous = np.concatenate([changes[:-1], actions[:-1]], axis=-1)[kept]
  inputs = np.concatenate([x[1:-1], actions[1:]], axis=-1)[kept]
  if inputs.shape[-1] > _MOST_FEATURES or len(target) < _FITTED_STEPS:
    return np.nan
  inputs = np.insert(inputs / (np.abs(inputs).max(axis=0) + 1e-12), 0, 1.0, 1)
  products = np.einsum("ni,nj->nij", inputs, inputs).reshape(len(inputs), -1)
  variance = np.maximum(target.var(axis=0), 1e-30)
  without = _fit(products, target) / variance
  both = _fit(np.concatenate([products, previous], axis=1), target) / variance
  needs = (without > _UNEXPLAINED) & (both < _EXPLAINED_BY_PREVIOUS * without)
  changing = variance > 1e-12 + 1e-10 * (x**2).max(axis=(0, 1))
  return float(needs[changing].mean()) if changing.any() else np.nan


def _fit(inputs: np.ndarray, target: np.ndarray) -> np.ndarray:
  """Returns the mean squared errors [D] of a linear fit, on the other half."""
  weights = np.linalg.lstsq(inputs[::2], target[::2], rcond=1e-10)[0]
  return ((inputs[1::2] @ weights - target[1::2]) ** 2).mean(axis=0)
