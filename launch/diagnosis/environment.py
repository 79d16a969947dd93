"""Checks of the environment, by what random play has measured."""

import math
import typing

import numpy as np

from slipway.launch.diagnosis import finding

if typing.TYPE_CHECKING:
  from slipway.environments import probe_layers

CHECKS = finding.Checks(needs_play=True)

# Sizes of discounted returns between which networks learn with the presets'
# values. Sparse rewards are seldom seen, so their returns may be small.
_MAX_RETURN, _MIN_DENSE_RETURN, _MIN_SPARSE_RETURN = 5_000.0, 1.0, 0.02
_LEAST_DISCOUNT = 0.98  # of these returns
_DENSE = 0.5  # part of the steps that have a reward
# Root mean squares of an observation's numbers between which an MLP learns
# without normalization. MuJoCo's Humanoid has numbers of some tens.
_MAX_OBSERVATION, _MIN_OBSERVATION = 100.0, 0.02
_MIN_REACTION = 0.25  # see `Revealed.reaction`; LunarLander's is 2
_MAX_OUTSIDE = 0.01  # part of the observations outside of their space
# Part of the observation's numbers that the previous one predicts much better.
_MAX_UNPREDICTABLE = 0.5
_SLOW_STEP_S = 0.02
# Steps from which episodes of one length look like those of a time limit.
_LONG = 50


def _find_fault(
  e: finding.Evidence, kind: str
) -> "probe_layers.LayerFault | None":
  """Returns the fault of a kind that a wrapper has, if any."""
  single = e.probe and e.probe.single
  faults = single.faults if single else ()
  return next((x for x in faults if x.kind == kind), None)


@CHECKS.add("constant reward", finding.PROBLEM)
def _check_constant_reward(e: finding.Evidence) -> str | None:
  probe = e.played
  rewards, returns = probe.raw_rewards, {*e.returns}
  if e.training_return is not None:
    returns.add(e.training_return)
  # Tasks that end at a goal have equal rewards until it is reached once.
  least = 1 if not rewards.any() else 3
  if np.ptp(rewards) > 0 or len(e.returns) < least:
    return None
  if len(returns | {*probe.returns}) > 1:
    return None
  return (
    f"each of {rewards.size:,} steps of random play had the reward "
    f"{rewards[0]:g}, and so had training, so there is nothing to learn: check "
    "the environment's rewards and wrappers, or reward progress"
  )


@CHECKS.add("reward sign", finding.PROBLEM)
def _check_reward_sign(e: finding.Evidence) -> str | None:
  probe = e.played
  if fault := _find_fault(e, "reward sign"):
    return (
      f"{fault.wrapper} turns rewards into costs (factor "
      f"{fault.value:.3g}), so the policy learns to fail: remove the sign"
    )
  if _find_fault(e, "reward scale"):
    return None  # returns don't fit the target
  target = e.get("limits.target_return")
  target = target if math.isfinite(target) else probe.reward_threshold
  if target is None or not probe.returns:
    return None
  mean = float(np.mean(probe.returns))
  if mean >= target:
    return (
      f"random play has a mean return of {mean:.4g}, which is at the target of "
      f"{target:g} already: check the sign of the rewards, or set "
      "config.limits.target_return to what a good policy reaches"
    )
  # A limit may have ended episodes before a rare reward.
  is_complete = probe.terminations == len(probe.lengths)
  highest = max(probe.raw_rewards.max(), *e.returns, mean)
  if is_complete and probe.raw_rewards.min() < 0 >= highest and target > 0:
    return (
      f"the target is a return of {target:g}, but no reward is positive: check "
      "the sign of the rewards, or config.limits.target_return"
    )
  return None


@CHECKS.add("reward scale", finding.PROBLEM)
def _check_reward_scale(e: finding.Evidence) -> str | None:
  probe = e.played
  if e.get("normalization.rewards"):
    return None
  remedy = (
    "set config.normalization.rewards=True, or scale the returns to the order "
    f"of 1 to 100 by {e.show('environment.reward_scale')}"
  )
  if fault := _find_fault(e, "reward scale"):
    return (
      f"{fault.wrapper} multiplies rewards by {fault.value:.3g}, "
      f"so the algorithm's values don't fit them: {remedy}"
    )
  sizes = np.abs(probe.rewards)
  if not sizes.any():
    return None
  # A discount that is too low is another finding.
  discount = max(e.get("adder.discount") or 0.0, _LEAST_DISCOUNT)
  horizon = min(1 / max(1 - discount, 1e-4), np.nanmax([e.episode_steps, 1.0]))
  is_dense = np.mean(sizes > 0) > _DENSE
  size = max(float(sizes.max()), float(sizes.mean()) * horizon)
  smallest = _MIN_DENSE_RETURN if is_dense else _MIN_SPARSE_RETURN
  if smallest <= size <= _MAX_RETURN:
    return None
  side = "large" if size > 1 else "small"
  return (
    f"discounted returns have a size of about {size:.3g}, which is too {side} "
    f"for the networks and the algorithm's other values: {remedy}"
  )


@CHECKS.add("truncation", finding.PROBLEM)
def _check_truncation(e: finding.Evidence) -> str | None:
  probe = e.played
  advice = (
    "so the values of good states at the limit are learned as 0: return "
    "terminated=False and truncated=True there"
  )
  if fault := _find_fault(e, "truncation"):
    return (
      f"{fault.wrapper} turns the truncation of an episode into a "
      f"termination, {advice}"
    )
  if fault := _find_fault(e, "termination"):
    return (
      f"{fault.wrapper} hides that episodes have terminated, so failures don't "
      "lower the values of what led to them: pass terminated=True on"
    )
  lengths = probe.lengths
  played = (
    len(lengths) > 2
    and len(set(lengths)) == 1
    and probe.terminations == len(lengths)
  )
  length = lengths[0] if played else e.lengths[-1] if e.lengths else 0
  # Evaluations of whole episodes that all end at the same step.
  evaluated = (
    len(e.lengths) > 2
    and len({*e.lengths[-3:]}) == 1
    and length.is_integer()
    and e.status is not None
    and not e.status.truncations
    and e.status.episodes > 0
  )
  if not (played or evaluated) or length < _LONG:
    return None
  return (
    f"episodes end after exactly {length:g} steps, and are reported as "
    f"terminated, {advice}, if it is a time limit"
  )


@CHECKS.add("seed", finding.PROBLEM)
def _check_seed(e: finding.Evidence) -> str | None:
  single = e.played.single
  if fault := _find_fault(e, "seed"):
    return (
      f"{fault.wrapper} does not pass the seed of reset() on, so "
      "runs can't be repeated, or all episodes are equal: pass it on"
    )
  if single is None:
    return None
  if not single.is_seeded:
    return (
      "two resets with the same seed, and the same actions, gave different "
      "observations, so runs can't be repeated: call super().reset(seed=seed) "
      "and use self.np_random for all random numbers"
    )
  if single.has_one_start:
    return (
      "all episodes begin with the same observation, whatever the seed is, so "
      "the policy sees one start only: use the seed that reset() gets"
    )
  return None


@CHECKS.add("action scale", finding.PROBLEM)
def _check_action_scale(e: finding.Evidence) -> str | None:
  advice = (
    "set the bounds of the action space to the range that the environment "
    "uses; Slipway scales actions to them"
  )
  single = e.played.single
  if fault := _find_fault(e, "action scale"):
    part = "the ends" if math.isinf(fault.value) else f"{fault.value:.2g}"
    return (
      f"after {fault.wrapper}, random actions use {part} of the "
      f"environment's range, so the policy can't choose well: {advice}"
    )
  if single is None:
    return None
  if single.small_is_large:
    return (
      "a tenth of an action does the same as the largest one, so nearly all "
      f"actions are clipped: {advice}"
    )
  if single.reaction < _MIN_REACTION:
    return (
      "opposite actions make nearly no difference to the next observations and "
      "rewards, so there is little to choose: check that the environment uses "
      f"them, and {advice}"
    )
  return None


@CHECKS.add("observation", finding.PROBLEM)
def _check_observation(e: finding.Evidence) -> str | None:
  probe = e.played
  if not probe.is_finite:
    return (
      "observations are nan or infinite, so all of the network's outputs are: "
      "check the environment"
    )
  if probe.observation_std.size and not probe.observation_std.any():
    return (
      "all observations are equal, so the policy can't tell states apart: "
      "check the environment and its wrappers"
    )
  if probe.single is not None and probe.single.outside > _MAX_OUTSIDE:
    return (
      f"{probe.single.outside:.0%} of the observations are far outside of the "
      "bounds of their space: correct the space, or the observations"
    )
  return None


@CHECKS.add("observation scale", finding.WARNING)
def _check_observation_scale(e: finding.Evidence) -> str | None:
  probe = e.played
  if (
    not (probe.observation_scale.size and probe.is_finite)
    or e.get("normalization.observations")
    or e.get("network.torso") != "mlp"
  ):
    return None
  largest, deviation = probe.observation_scale.max(), probe.observation_std
  if _MIN_OBSERVATION <= largest <= _MAX_OBSERVATION or not deviation.any():
    return None
  return (
    f"observations have numbers of the size {largest:.3g}, for which networks "
    "are not initialized: set config.normalization.observations=True, or "
    "scale them to the order of 1 in a wrapper"
  )


@CHECKS.add("hidden state", finding.WARNING)
def _check_hidden_state(e: finding.Evidence) -> str | None:
  probe = e.played
  if (
    e.get("network.core_size")
    or e.get("environment.frame_stack")
    or e.get("adder.stacked_frames")
  ):
    return None
  advice = (
    "set config.environment.frame_stack=4, config.network.core_size=64 where "
    "the algorithm has a core, or observe velocities, too"
  )
  shape = probe.spec.observations.shape
  is_frame = probe.spec.observations.dtype == np.uint8 and (
    len(shape) == 2 or (len(shape) == 3 and min(shape) in (1, 3))
  )
  if is_frame:
    return f"one frame does not show what moves where: {advice}"
  if not probe.unpredictable >= _MAX_UNPREDICTABLE:
    return None
  return (
    f"{probe.unpredictable:.0%} of the observation's numbers follow from the "
    "last two observations, but not from the last one alone, so it lacks "
    f"what moves where: {advice}"
  )


@CHECKS.add("slow environment", finding.WARNING)
def _check_slow_environment(e: finding.Evidence) -> str | None:
  step_s = e.played.step_s
  if step_s < _SLOW_STEP_S:
    return None
  return (
    f"a step of the environment takes {1e3 * step_s:.3g} ms, so a worker "
    f"collects at most {1 / step_s:.3g} steps/s: use more "
    "config.topology.workers in mode async, config.environment.asynchronous "
    "if it waits for a device, or an algorithm with a replay"
  )
