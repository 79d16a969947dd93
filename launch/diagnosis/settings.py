"""Checks of the config against what the run and the environment are like."""

import math
import typing

from slipway.launch.diagnosis import finding

CHECKS = finding.Checks()


class _Range(typing.NamedTuple):
  """The range of a field with which runs learn; elsewhere there is a finding.

  Attributes:
    name: name of the check.
    severity: severity of its findings.
    field: name of the field; algorithms without it are not checked.
    low: smallest value of the range, or the smallest of several.
    high: largest value.
    effect: what follows from a value outside of the range.
    presets: values of presets.
  """

  name: str
  severity: str
  field: str
  low: float
  high: float
  effect: str
  presets: str


# Adam and RMSProp learn with step sizes of up to 0.005 in presets.
_RANGES = (
  _Range(
    *("n-step", finding.PROBLEM, "adder.n_step", 1, 30),
    "sums rewards that older and exploring policies got, so values are those "
    "of such policies, and noisy",
    "1 to 15",
  ),
  _Range(
    *("entropy weight", finding.PROBLEM, "learner.entropy_weight", 0, 0.15),
    "rewards random actions more than the task does, so the policy stays "
    "random",
    "0.01",
  ),
  _Range(
    *("evaluation", finding.PROBLEM, "exploration.evaluation_epsilon", 0, 0.3),
    "makes evaluations play at random",
    "0 to 0.05",
  ),
  _Range(
    *("policy clip", finding.WARNING, "learner.clip", 0.02, 1),
    "lets a batch change the policy by nothing, or by too much",
    "0.1 to 0.2",
  ),
  _Range(
    *("epochs", finding.WARNING, "learner.epochs", 1, 50),
    "is so many passes over a batch that the policy overfits it",
    "4 to 20",
  ),
  _Range(
    *("publications", finding.WARNING, "variables.publish_period", 1, 2_000),
    "lets workers act with variables that are up to as many updates old",
    "1 to 40",
  ),
  _Range(
    *("small network", finding.WARNING, "network.hidden_sizes", 8, math.inf),
    "has a layer through which little passes",
    "64 and more",
  ),
)


def _make_check(limit: _Range) -> finding.Function:
  """Returns the check of a field's range."""

  def check(e: finding.Evidence) -> str | None:
    value = e.get(limit.field)
    if value is None:
      return None
    value = min(value) if isinstance(value, tuple) else value
    if limit.low <= value <= limit.high:
      return None
    return f"{e.show(limit.field)} {limit.effect}: presets have {limit.presets}"

  return check


for _limit in _RANGES:
  CHECKS.add(_limit.name, _limit.severity)(_make_check(_limit))

# Largest step size, and smallest sum of all, the most that a weight moves.
_MAX_RATE, _MIN_MOVE = 0.008, 5e-3
# Shortest horizon 1 / (1 - discount) where episodes are much longer.
_MIN_HORIZON, _HORIZONS_PER_EPISODE = 8.0, 4.0
# Transitions and episodes that a replay should hold; presets: 20,000.
_MIN_REPLAY, _MIN_EPISODES, _ENOUGH_REPLAY = 2_000, 3.0, 10_000.0
_MIN_BATCH = 16  # environment steps
# Updates per step of the environment.
_MIN_RATIO, _MAX_RATIO = 1 / 512, 32.0
_MIN_TARGET_PERIOD = 10  # updates; presets have 25 and more
_MAX_TARGET_WEIGHT = 0.1  # tau per update; presets have up to 0.01
_MIN_FOLLOWED = 0.3  # part of the critics' way that target networks have made
_MAX_EPSILON = 0.5  # at the end of exploration
_MAX_DECAY_S = 12 * 3600.0  # until epsilon has fallen
_MIN_EPISODE = 15  # steps, at an own time limit or with repeated actions
_MANY_UPDATES, _MORE_UPDATES = 500, 2_000


@CHECKS.add("learning rate", finding.PROBLEM)
def _check_learning_rate(e: finding.Evidence) -> str | None:
  presets = "presets have 5e-5 to 5e-3"
  for name in ("learner.learning_rate", "learner.policy_learning_rate"):
    rate = e.get(name)
    if not rate or e.get("learner.optimizer") == "sgd":
      continue
    if rate > _MAX_RATE:
      return f"{e.show(name)} lets updates undo one another: {presets}"
    epochs = e.get("learner.epochs") or 1
    moved = rate * e.updates * epochs
    if e.updates > _MANY_UPDATES and moved < _MIN_MOVE:
      return (
        f"{e.show(name)} has hardly changed the weights in {e.updates:,} "
        f"updates: {presets}"
      )
  decay = e.get("learner.decay_steps")
  if decay and e.updates > 20 * decay:
    return (
      f"{e.show('learner.decay_steps')} is over since {e.updates - decay:,} "
      "updates, which learn with 5 % of the learning rate only: raise it to "
      "the length of the run"
    )
  return None


@CHECKS.add("discount", finding.PROBLEM)
def _check_discount(e: finding.Evidence) -> str | None:
  discount, steps = e.get("adder.discount"), e.episode_steps
  if discount is None or math.isnan(steps):
    return None
  horizon = 1 / (1 - discount) if discount < 1 else math.inf
  if horizon < _MIN_HORIZON and steps > _HORIZONS_PER_EPISODE * horizon:
    return (
      f"{e.show('adder.discount')} looks {horizon:.2g} steps ahead, but "
      f"episodes have up to {steps:.4g}: raise it to 0.98 or 0.99, unless "
      "rewards follow actions at once"
    )
  status = e.status
  if discount == 1 and status and status.truncations > status.episodes / 2:
    return (
      f"{e.show('adder.discount')} sums rewards without end, and most episodes "
      "are truncated, so values grow without bound: set it to 0.99 to 0.999"
    )
  return None


@CHECKS.add("replay", finding.PROBLEM)
def _check_replay(e: finding.Evidence) -> str | None:
  capacity, steps = e.get("replay.capacity"), e.episode_steps
  episodes = 0.0 if math.isnan(steps) else _MIN_EPISODES * steps
  needed = max(_MIN_REPLAY, min(episodes, _ENOUGH_REPLAY))
  if capacity is None or capacity >= needed:
    return None
  return (
    f"{e.show('replay.capacity')} holds the newest steps only, which are much "
    "alike, so the networks forget the rest: presets have 20,000 to 1,000,000"
  )


@CHECKS.add("batch size", finding.WARNING)
def _check_batch_size(e: finding.Evidence) -> str | None:
  batch, samples = (
    e.get("learner.batch_size"),
    e.get("replay.samples_per_insert"),
  )
  # A sequence or a rollout has several steps.
  if batch and batch * (e.get("adder.unroll") or 1) < _MIN_BATCH:
    return (
      f"{e.show('learner.batch_size')} makes gradients mostly noise: presets "
      "have 32 and more"
    )
  if samples and not _MIN_RATIO <= samples / batch <= _MAX_RATIO:
    return (
      f"{e.show('replay.samples_per_insert')} with batches of {batch} is "
      f"{samples / batch:.2g} updates per step, by which it learns slowly or "
      "overfits the first steps: presets have 1/16 to 1 for most tasks"
    )
  return None


@CHECKS.add("target network", finding.PROBLEM)
def _check_target_network(e: finding.Evidence) -> str | None:
  name, weight = "learner.target_update_period", e.get("learner.tau")
  if not (period := e.get(name)):
    return None
  presets, followed = "presets have 25 to 2,500", e.updates / period
  is_fast, is_slow = period < _MIN_TARGET_PERIOD, followed < 2
  if weight is not None:
    name, presets = "learner.tau", "presets have 0.005 to 0.01"
    is_fast = weight / period > _MAX_TARGET_WEIGHT
    is_slow = weight * followed < _MIN_FOLLOWED
  if is_fast:
    return (
      f"{e.show(name)} lets the target network follow at once, so targets move "
      f"with the values, which may diverge: {presets}"
    )
  if is_slow and e.updates > _MORE_UPDATES:
    return (
      f"{e.show(name)} has hardly let the target network follow in "
      f"{e.updates:,} updates, so rewards don't spread to earlier steps: "
      f"{presets}"
    )
  return None


@CHECKS.add("exploration", finding.PROBLEM)
def _check_exploration(e: finding.Evidence) -> str | None:
  start, end = (e.get(f"exploration.epsilon_{x}") for x in ("start", "end"))
  noise = e.get("exploration.noise_std")
  if e.get("learner.policy_loss") == "deterministic" and noise is not None:
    if 0 < noise <= 1:
      return None
    return (
      f"{e.show('exploration.noise_std')} tries no other action than the "
      "policy's, or any: presets have 0.1"
    )
  if start is None or e.get("exploration.schedule") != "linear":
    return None
  if max(start, end) == 0 and not e.get("network.noisy"):
    return (
      f"{e.show('exploration.epsilon_start')} never tries another action than "
      "the best known: set it to 1, and let it fall to 0.05"
    )
  if end > _MAX_EPSILON:
    return (
      f"exploration never ends: {e.show('exploration.epsilon_end')} is the part"
      " of random actions for ever, so good policies are never tried: presets "
      "have 0.01 to 0.1"
    )
  decay, status = e.get("exploration.decay_steps"), e.status
  if status is None or not (rate := status.rates.mean_env_steps_per_s):
    return None
  left_s = (decay - status.env_steps) / rate
  limit = e.get("limits.environment_steps")
  if start > _MAX_EPSILON and (left_s > _MAX_DECAY_S or 0 < 2 * limit < decay):
    return (
      f"exploration does not end: {e.show('exploration.decay_steps')} takes "
      f"{left_s:,.0f} s more at {rate:,.0f} steps/s, until which most actions "
      "are random: set it to a tenth of the run's steps"
    )
  return None


@CHECKS.add("short episodes", finding.WARNING)
def _check_short_episodes(e: finding.Evidence) -> str | None:
  limit, skip = e.get("environment.time_limit"), e.get("environment.frame_skip")
  steps, target = e.episode_steps, e.get("limits.target_return")
  best = e.probe.raw_rewards.max() if e.probe is not None else math.nan
  if limit and 0 < best * limit < target < math.inf:
    return (
      f"{e.show('environment.time_limit')} ends episodes before the target of "
      f"{target:g} can be reached with rewards of up to {best:.3g}: raise it"
    )
  if not steps <= _MIN_EPISODE or (skip == 1 and not limit):
    return None
  name = "frame_skip" if skip > 1 else "time_limit"
  return (
    f"episodes have at most {steps:.3g} steps, because of "
    f"{e.show(f'environment.{name}')}, so few actions can be chosen: "
    + ("lower it" if skip > 1 else "raise it")
  )
