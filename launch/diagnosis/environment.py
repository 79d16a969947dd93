"""Checks of the environment, by what random play has measured."""

import typing
from collections.abc import Iterator

import numpy as np

from slipway.launch.diagnosis import finding

if typing.TYPE_CHECKING:
  from slipway.environments import random_play

# Sizes of discounted returns between which networks learn with the presets'
# values. Sparse rewards are seldom seen, so their returns may be small.
_MAX_RETURN, _MIN_DENSE_RETURN, _MIN_SPARSE_RETURN = 5_000.0, 1.0, 0.02
_DENSE = 0.5  # part of the steps that have a reward
_LEAST_DISCOUNT = 0.98  # of these returns; a lower one is another finding
# Root mean squares of an observation's numbers between which an MLP learns
# without normalization. MuJoCo's Humanoid has numbers of some tens.
_MAX_OBSERVATION, _MIN_OBSERVATION = 100.0, 0.02
_MAX_UNPREDICTABLE = 0.5  # see `Probe.unpredictable`
_STACKED = (
  *("network.core_size", "environment.frame_stack"),
  "adder.stacked_frames",
)
_SLOW_STEP_S = 0.02
_LONG = 50  # steps from which equal episodes look like those of a time limit


def check(e: finding.Evidence) -> Iterator[finding.Finding]:
  """Yields the findings in an environment, if it was played."""
  for name in ("environment", "seed", "action scale", "truncation"):
    if name in e.faults:
      yield finding.problem(name, e.faults[name])
  if (probe := e.probe) is None:
    return
  if not probe.is_reproducible:
    yield finding.problem(
      "seed",
      "another environment with the same seed did not repeat its steps, so "
      "runs can't be repeated: use self.np_random for all random numbers",
    )
  longest = max(probe.lengths, default=0)
  is_limited = longest >= _LONG and 4 * probe.lengths.count(longest) > len(
    probe.lengths
  )
  are_terminated = 2 < len(probe.lengths) == probe.terminations
  if is_limited and are_terminated and "truncation" not in e.faults:
    yield finding.problem(
      "truncation",
      f"episodes are terminated after exactly {longest} steps: if that is a "
      "time limit, return terminated=False and truncated=True there, or good "
      "states at the limit get a value of 0",
    )
  yield from _check_rewards(e, probe)
  yield from _check_observations(e, probe)
  if probe.step_s >= _SLOW_STEP_S:
    yield finding.warning(
      "slow environment",
      f"a step takes {1e3 * probe.step_s:.3g} ms: use more "
      "config.topology.workers in mode async, or "
      "config.environment.asynchronous if it waits for a device",
    )


def _check_rewards(
  e: finding.Evidence, probe: "random_play.Probe"
) -> Iterator[finding.Finding]:
  raw, sizes = probe.raw_rewards, np.abs(probe.rewards)
  trained = e.status.training_return
  returns = {*e.returns, *probe.returns} | ({trained} - {None})
  # Tasks that end at a goal have equal rewards until it is reached once.
  least = 3 if raw.any() else 1
  if len(e.returns) >= least and len(returns) == 1 and not np.ptp(raw):
    yield finding.problem(
      "constant reward",
      f"each of {raw.size:,} steps of random play had the reward {raw[0]:g}, "
      "and so had training, so there is nothing to learn: check the rewards, "
      "or reward progress",
    )
  if "reward sign" in e.faults:
    yield finding.warning("reward sign", e.faults["reward sign"])
  discount = max(_LEAST_DISCOUNT, e.get("adder.discount") or 0.0)
  horizon = min(1 / max(1 - discount, 1e-4), max(1.0, e.episode_steps))
  size = max(float(sizes.max()), float(sizes.mean()) * horizon)
  is_dense = np.mean(sizes > 0) > _DENSE
  smallest = _MIN_DENSE_RETURN if is_dense else _MIN_SPARSE_RETURN
  if e.get("normalization.rewards") or not size:
    return
  scale = e.faults.get("reward scale", "")
  if scale or not smallest <= size <= _MAX_RETURN:
    yield finding.problem(
      "reward scale",
      f"{scale}discounted returns have a size of about {size:.3g}: set "
      "config.normalization.rewards=True, or scale them to the order of 1 to "
      f"100 by {e.show('environment.reward_scale')}",
    )


def _check_observations(
  e: finding.Evidence, probe: "random_play.Probe"
) -> Iterator[finding.Finding]:
  largest, spec = (
    probe.observation_scale.max(initial=0.0),
    probe.spec.observations,
  )
  if np.array_equal(probe.observation_low, probe.observation_high):
    yield finding.problem(
      "observation",
      "all observations are equal, so the policy can't tell states apart: "
      "check the environment and its wrappers",
    )
  is_raw = not e.get("normalization.observations")
  is_unusual = not _MIN_OBSERVATION <= largest <= _MAX_OBSERVATION
  if is_raw and e.get("network.torso") == "mlp" and largest and is_unusual:
    yield finding.warning(
      "observation scale",
      f"observations have numbers of the size {largest:.3g}, for which "
      "networks are not initialized: set "
      "config.normalization.observations=True, or scale them to the order of 1",
    )
  # One frame has two axes, or three with its colors.
  is_frame = spec.dtype == np.uint8 and (
    len(spec.shape) == 2 or (len(spec.shape) == 3 and min(spec.shape) in (1, 3))
  )
  is_hidden = is_frame or probe.unpredictable >= _MAX_UNPREDICTABLE
  if is_hidden and not any(map(e.get, _STACKED)):
    yield finding.warning(
      "hidden state",
      "one observation does not show what moves where, the last two do: set "
      "config.environment.frame_stack=4, config.network.core_size=64 where the "
      "algorithm has a core, or observe velocities, too",
    )
