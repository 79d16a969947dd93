"""Probe: plays an environment at random, and measures what agents learn from.

`slipway doctor` compares the measurements with a run's config.
"""

import dataclasses
import statistics
import time

import ml_collections
import numpy as np
from acme import specs

from slipway.environments import (
  arrays,
  factory,
  ids,
  vector,
)
from slipway.environments import (
  probe_layers as layers,
)

_ENVIRONMENTS = 4  # played as one batch
# Steps of the batch; fewer if they take more than `seconds` of processor time,
# or several times as long.
_STEPS, _LEAST_STEPS, _PATIENCE = 1_500, 20, 4.0
# Largest number of an observation's numbers and of the actions whose products
# predict the next observation.
_MOST_FEATURES = 20
_FITTED_STEPS = 400  # that are needed
# A component of the observation needs its previous change, if its next one is
# unexplained to this degree without it, and by this factor better with it.
_UNEXPLAINED, _EXPLAINED_BY_PREVIOUS = 0.25, 0.15


@dataclasses.dataclass(frozen=True)
class Probe:
  """Measurements of random play.

  Attributes:
    spec: spec of one environment.
    steps: environment steps.
    step_s: median seconds of a step of one environment.
    observation_scale: root mean square of each number of the observations, [D];
      empty for images.
    observation_std: standard deviation of each of them, [D].
    is_finite: whether all numbers of the observations were finite.
    rewards: rewards for learning, [N].
    raw_rewards: the environment's own rewards, [N].
    returns: sums of raw rewards of the complete episodes.
    lengths: steps of the complete episodes.
    terminations: number of these episodes that have ended by termination.
    unpredictable: part of the changing numbers of the observations that need
      the previous observation to be predicted; nan if unknown.
    reward_threshold: return at which gymnasium calls the task solved, or None.
    single: what one environment revealed, or None for Atari's batches.
  """

  spec: specs.EnvironmentSpec
  steps: int
  step_s: float
  observation_scale: np.ndarray
  observation_std: np.ndarray
  is_finite: bool
  rewards: np.ndarray
  raw_rewards: np.ndarray
  returns: list[float]
  lengths: list[int]
  terminations: int
  unpredictable: float
  reward_threshold: float | None = None
  single: layers.Revealed | None = None


def play(config: ml_collections.ConfigDict, seconds: float = 1.0) -> Probe:
  """Plays random actions.

  Args:
    config: section `environment` of a config.
    seconds: processor time for which to play; twenty steps of four environments
      are played at least.

  Raises:
    Exception: as `factory.make`, and as the environment's `reset` and `step`.
  """
  environment = factory.make(config, _ENVIRONMENTS, seed=0, role="probe")
  try:
    played, step_s = _play(environment, seconds)
  finally:
    environment.close()
  single, gymnasium_spec = None, ids.find_spec(environment.name)
  # Experiments choose actions without a mask.
  if not config.action_mask and not ids.is_atari(gymnasium_spec):
    single = layers.reveal(config, step_s)
  return dataclasses.replace(
    _measure(environment.spec, played, step_s),
    reward_threshold=gymnasium_spec.reward_threshold,
    single=single,
  )


def _play(
  environment: vector.VectorEnvironment, seconds: float
) -> tuple[list[tuple[np.ndarray | None, vector.StepBatch]], float]:
  """Returns actions and steps, the reset first, and `Probe.step_s`."""
  random = np.random.default_rng(0)
  step = environment.reset()
  played: list[tuple[np.ndarray | None, vector.StepBatch]] = [(None, step)]
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
  return played, statistics.median(times_s) / _ENVIRONMENTS


def _measure(
  spec: specs.EnvironmentSpec,
  played: list[tuple[np.ndarray | None, vector.StepBatch]],
  step_s: float,
) -> Probe:
  """Returns the measurements of steps that were played."""
  batches = [step for _, step in played]
  first = np.stack([x.first for x in batches])  # [T + 1, B]
  ended = np.stack([x.terminated | x.truncated for x in batches])
  is_step = ~first
  raw = np.stack([x.raw_reward for x in batches])
  returns, lengths, terminations = [], [], 0
  for env in range(_ENVIRONMENTS):
    begin = 0
    for end in np.flatnonzero(ended[:, env]):
      lengths.append(int(is_step[begin : end + 1, env].sum()))
      returns.append(float(raw[begin : end + 1, env].sum()))
      terminations += int(batches[end].terminated[env])
      begin = end + 1
  observations = np.stack([x.observation for x in batches])
  is_vector = (
    isinstance(spec.observations, specs.Array)
    and not isinstance(spec.observations, arrays.MaskedArray)
    and observations.ndim == 3
    and observations.dtype.kind == "f"
  )
  flat = observations.reshape(-1, observations.shape[-1]).astype(np.float64)
  if not is_vector:
    flat = np.zeros((1, 0))
  is_finite = bool(np.isfinite(flat).all())
  has_sequence = is_vector and is_finite
  return Probe(
    spec=spec,
    steps=int(is_step.sum()),
    step_s=step_s,
    observation_scale=np.sqrt((flat**2).mean(axis=0)),
    observation_std=flat.std(axis=0),
    is_finite=is_finite,
    rewards=np.stack([x.reward for x in batches])[is_step],
    raw_rewards=raw[is_step],
    returns=returns,
    lengths=lengths,
    terminations=terminations,
    unpredictable=(
      _measure_hidden_state(spec, played, observations, first)
      if has_sequence
      else np.nan
    ),
  )


def _measure_hidden_state(
  spec: specs.EnvironmentSpec,
  played: list[tuple[np.ndarray | None, vector.StepBatch]],
  observations: np.ndarray,
  first: np.ndarray,
) -> float:
  """Returns `Probe.unpredictable`.

  The next change of each number is fitted to the observation, the action and
  their products, with and without the previous change and action. Half of the
  steps are fitted, the other half measured.
  """
  sizes = arrays.component_sizes(spec.actions)
  actions = np.stack([x for x, _ in played[1:] if x is not None])  # [T, B, ...]
  actions = actions.reshape(*actions.shape[:2], -1).astype(np.float64)
  if sizes is not None:
    if len(sizes) != 1:
      return np.nan
    actions = np.eye(sizes[0])[actions[..., 0].astype(int)]
  x = observations.astype(np.float64)
  changes = np.diff(x, axis=0)  # [T, B, D]
  is_step = ~first[1:]
  kept = is_step[1:] & is_step[:-1]
  target = changes[1:][kept]
  previous = np.concatenate([changes[:-1], actions[:-1]], axis=-1)[kept]
  inputs = np.concatenate([x[1:-1], actions[1:]], axis=-1)[kept]
  if inputs.shape[-1] > _MOST_FEATURES or len(target) < _FITTED_STEPS:
    return np.nan
  inputs = inputs / (np.abs(inputs).max(axis=0) + 1e-12)
  rows, columns = np.triu_indices(inputs.shape[-1])
  now = np.concatenate(
    [np.ones((len(inputs), 1)), inputs, inputs[:, rows] * inputs[:, columns]], 1
  )
  variance = target.var(axis=0)
  changing = variance > 1e-12 + 1e-10 * (x.reshape(-1, x.shape[-1]) ** 2).max(0)
  if not changing.any():
    return np.nan
  without = _fit(now, target) / np.maximum(variance, 1e-30)
  with_previous = _fit(np.concatenate([now, previous], axis=1), target)
  with_previous = with_previous / np.maximum(variance, 1e-30)
  needs = (without > _UNEXPLAINED) & (
    with_previous < _EXPLAINED_BY_PREVIOUS * without
  )
  return float(needs[changing].mean())


def _fit(inputs: np.ndarray, target: np.ndarray) -> np.ndarray:
  """Returns the mean squared errors [D] of a linear fit, on the other half."""
  fitted = np.arange(len(inputs)) % 2 == 0
  weights = np.linalg.lstsq(inputs[fitted], target[fitted], rcond=1e-10)[0]
  errors = inputs[~fitted] @ weights - target[~fitted]
  return (errors**2).mean(axis=0)
