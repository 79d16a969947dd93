"""Policy inspection: what a run's policy does in some episodes."""

import contextlib
import itertools
import pathlib
import typing
from collections.abc import Iterator

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import core, epsilon_greedy, policies, q_builder
from slipway.environments import arrays, vector
from slipway.launch.api import policy as policy_lib
from slipway.launch.inspection import report
from slipway.launch.runs import checkpoints
from slipway.replay.items import adder

Row = report.Row
_MAX_STEPS = 10_000  # environment steps after which an episode is cut off
_MAX_KEPT = 256  # observations that are perturbed
_PATCHES = 6  # patches of an image per side, and groups of a vector's square


class _Played(typing.NamedTuple):
  """One episode of each of B environments, T steps of the longest one.

  What the algorithm does not have is nan.
  """

  is_step: np.ndarray  # whether the episode had not ended before, [T, B]
  action: np.ndarray  # [T, B, ...]
  log_prob: np.ndarray  # log-probabilities of the actions, [T, B]
  reward: np.ndarray  # rewards from which the policy learns, [T, B]
  raw_reward: np.ndarray  # rewards of the environment, [T, B]
  terminated: np.ndarray  # [T, B]
  truncated: np.ndarray  # [T, B]
  value: np.ndarray  # values of the observations, [T + 1, B]
  kept: np.ndarray  # observations of random moments, [M, ...]


def inspect(
  snapshot: pathlib.Path,
  config: ml_collections.ConfigDict,
  builder: core.Builder,
  environment: vector.VectorEnvironment,
) -> report.Report:
  """Plays an episode in each environment, and returns statistics of the policy.

  Raises:
    ValueError: the saved state is damaged.
    user_code.UserCodeError: the environment failed.
  """
  spec = environment.spec
  learner = builder.make_learner(config, spec)
  checkpoints.restore(snapshot, learner)

  def make_actor(kind: str) -> core.Actor:
    actor_config = config.copy_and_resolve_references()
    policy_lib.set_policy(actor_config, spec, kind)
    actor = builder.make_greedy_actor(actor_config, spec)
    actor.load(learner.get_variables())
    return actor

  greedy = actor = make_actor("greedy")
  kind = "greedy"
  with contextlib.suppress(ValueError):  # the policy is no distribution
    actor, kind = make_actor("sampled"), "sampled"
  played = _play(environment, actor, builder, learner)
  returns = (played.raw_reward * played.is_step).sum(axis=0)
  actions = played.action[played.is_step]
  entropy = -played.log_prob[played.is_step].mean()
  rows = [
    Row("actions_are", kind, "from the policy, if it is a distribution"),
    Row("mean_return", returns.mean(), "undiscounted"),
    Row("mean_length", len(actions) / len(returns), "environment steps"),
    *_describe_actions(spec.actions, actions),
    Row("entropy", entropy, "mean of -log pi(a given o), in nats"),
  ]
  if not np.isnan(played.value).any():
    rows += _calibrate(played, config.adder.discount)
  found = {"policy": rows}
  if len(builder.make_network(config, spec).inputs) == 1:  # no memory
    found["perturbations"] = _perturb(greedy, spec, played.kept)
  return found


def _play(
  environment: vector.VectorEnvironment,
  actor: core.Actor,
  builder: core.Builder,
  learner: core.Learner,
) -> _Played:
  """Plays one episode in each environment."""
  steps, values, kept, random = [], [], [], np.random.default_rng(0)
  step, is_step = environment.reset(), np.ones(environment.num_envs, bool)
  unknown = np.full(environment.num_envs, np.nan)
  while True:
    output = actor.act(step.observation, step.reward, step.first)
    values.append(_estimate(builder, learner, step.observation, output))
    if not is_step.any() or len(steps) == _MAX_STEPS:
      break
    # A sample of the observations of all moments (reservoir sampling).
    t = len(steps)
    place = t if t < _MAX_KEPT else random.integers(t + 1)
    if place < _MAX_KEPT:
      env = random.choice(np.flatnonzero(is_step))
      kept[place : place + 1] = [step.observation[env]]
    step = environment.step(output.action)
    log_prob = output.extras.get(policies.LOG_PROB, unknown)
    rewards = step.reward, step.raw_reward
    ends = step.terminated, step.truncated
    steps.append((is_step, output.action, log_prob, *rewards, *ends))
    is_step = is_step & ~(step.terminated | step.truncated)
  return _Played(*map(np.stack, (*zip(*steps, strict=True), values, kept)))


def _estimate(
  builder: core.Builder,
  learner: core.Learner,
  observation: np.ndarray,
  output: adder.ActorOutput,
) -> np.ndarray:
  """Returns the expected returns of actions, [B], or nan."""
  if isinstance(builder, q_builder.QBuilder):
    return builder.unscale_values(output.extras[epsilon_greedy.VALUE_OF_ACTION])
  value = None
  if isinstance(learner, core.ValueLearner):
    value = learner.estimate_values(observation, output.action)
  return np.full(len(observation), np.nan) if value is None else value.numpy()


def _describe_actions(
  spec: specs.BoundedArray, actions: np.ndarray
) -> Iterator[report.Row]:
  """Yields statistics of each component of actions [N, ...]."""
  columns = actions.reshape(len(actions), -1).T
  for i, column in enumerate(columns):
    which = f"_{i}" if len(columns) > 1 else ""
    if actions.dtype.kind == "f":
      values = report.quantiles(column)
      yield Row(f"action{which}", values, "its bounds are -1 and 1")
      continue
    size = spec.maximum.reshape(-1)[i] + 1
    shares = np.bincount(column, minlength=size) / len(column)
    some = shares[shares > 0]
    entropy = (some * np.log(1 / some)).sum()
    yield Row(f"frequencies{which}", shares.tolist(), "of the actions from 0")
    yield Row(f"frequency_entropy{which}", entropy, "in nats")


def _calibrate(played: _Played, discount: float) -> list[report.Row]:
  """Compares the values of steps with the discounted returns that followed."""
  # Where a limit cuts an episode off, the value of its last observation stands
  # for the rest of the return.
  value, targets = played.value.astype(np.float64), []
  following = value[-1]
  for t in reversed(range(len(played.reward))):
    rest = np.where(played.truncated[t], value[t + 1], following)
    rest = np.where(played.terminated[t], 0.0, rest)
    following = played.reward[t] + discount * rest
    targets.append(following)
  returns = np.stack(targets[::-1])[played.is_step]
  values = value[:-1][played.is_step]
  with np.errstate(all="ignore"):  # nan: one of them does not vary
    correlation = np.corrcoef(values, returns)[0, 1]
    explained = 1 - (returns - values).var() / returns.var()
  return [
    Row("bias", (values - returns).mean(), "mean of value - return"),
    Row("correlation", correlation, "of values and returns"),
    Row(
      "explained_variance", explained, "1 - Var(return - value) / Var(return)"
    ),
  ]


def _perturb(
  actor: core.Actor, spec: specs.EnvironmentSpec, observations: np.ndarray
) -> list[report.Row]:
  """Returns how much greedy actions depend on each part of observations."""
  # The part gets its values from another observation, at random (permutation
  # importance, Breiman 2001, section 10). Masks of actions stay as they are.

  def act(changed: np.ndarray) -> np.ndarray:
    zeros = np.zeros(len(changed), np.float32)
    return np.asarray(actor.act(changed, zeros, zeros.astype(bool)).action)

  shape = observations.shape[1:]
  if isinstance(spec.observations, arrays.MaskedArray):
    shape = (shape[0] - spec.observations.mask_size,)
  shuffled = np.random.default_rng(0).permutation(observations)
  actions, found = act(observations), []
  for part in _split(shape):
    changed = observations.copy()
    changed[:, *part] = shuffled[:, *part]
    difference = act(changed) - actions
    if actions.dtype.kind == "f":
      change, meaning = np.abs(difference).mean(), "mean change of the actions"
    else:
      rows = difference.reshape(len(actions), -1)
      change, meaning = rows.any(axis=1).mean(), "of the actions change"
    name = ", ".join(
      str(x.start) + f":{x.stop}" * (x.stop - x.start > 1) for x in part
    )
    found.append(Row(f"[{name}]", change, meaning))
  return sorted(found, key=lambda x: x.value, reverse=True)


def _split(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
  """Yields the patches of an image, or the values or groups of a vector."""
  sides = np.argsort(shape, kind="stable")[-2:]  # those of an image
  most = _PATCHES if len(shape) > 1 else _PATCHES**2
  ranges = []
  for axis, size in enumerate(shape):
    count = min(size, most) if axis in sides else 1
    edges = np.linspace(0, size, count + 1).astype(int).tolist()
    ranges.append([slice(*x) for x in itertools.pairwise(edges)])
  return itertools.product(*ranges)
