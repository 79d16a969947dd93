"""Recording: recorded episodes in the form that estimators of values need."""

import math

import numpy as np
from acme import specs

from slipway.agents import core
from slipway.agents.networks import normalization, numpy_ops
from slipway.agents.off_policy import importance_sampling
from slipway.environments import arrays, recordings

_CHUNK = 4_096  # observations for which an actor acts in one call
# Actions per observation of a policy that does not always take the same one.
_SAMPLES = 8


class Recording:
  """E recorded episodes with N steps.

  Attributes:
    spec: spec of the environment.
    episodes: the episodes.
    inputs: their observations as inputs of networks: vectors have a mean of 0
      and a deviation of 1.  # [N + E, ...]
    actions: the recorded actions as vectors, float32.  # [N, A]
    before: rows of the observations before the steps, int64; the observation
      after a step has the next row.  # [N]
    first: rows of the episodes' first observations, int64.  # [E]
  """

  def __init__(
    self, spec: specs.EnvironmentSpec, episodes: recordings.Episodes
  ):
    """Prepares episodes whose observations and actions are those of a spec."""
    self.spec, self.episodes = spec, episodes
    self.inputs = _standardize(spec.observations, episodes.observations)
    self.actions = encode_actions(spec.actions, episodes.actions)
    lengths = episodes.lengths
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    self.before = np.arange(len(numbers)) + numbers
    self.first = np.cumsum(lengths + 1) - lengths - 1

  def compute_returns(self, discount: float) -> np.ndarray:
    """Returns the discounted sum of each episode's rewards, float64 [E]."""
    episodes = self.episodes
    padded = importance_sampling.pad(episodes.rewards, episodes.lengths)
    return padded @ discount ** np.arange(padded.shape[1])

  def sample_actions(self, actor: core.Actor) -> np.ndarray:
    """Returns S actions at each observation as vectors, float32 [S, N + E, A].

    S is 1 if the policy takes the same actions in a second call, and else 8.

    Args:
      actor: actor of the policy, whose network is feed-forward.
    """
    observations = self.episodes.observations
    starts = range(0, len(observations), _CHUNK)

    def act() -> np.ndarray:
      actions = [
        actor.act(x, np.zeros(len(x), np.float32), np.ones(len(x), bool)).action
        for x in (observations[i : i + _CHUNK] for i in starts)
      ]
      return encode_actions(self.spec.actions, np.concatenate(actions))

    first, second = act(), act()
    if (first == second).all():
      return first[None]
    return np.stack([first, second, *(act() for _ in range(_SAMPLES - 2))])


def encode_actions(spec: specs.Array, actions: np.ndarray) -> np.ndarray:
  """Returns actions [N, ...] as vectors, float32 [N, A].

  Components of discrete actions are one-hot; continuous ones are clipped to the
  bounds of the spec.

  Args:
    actions: actions of the spec, or numbers of joint actions, int32 [N].
  """
  sizes = arrays.component_sizes(spec)
  if sizes is None:
    clipped = np.clip(actions, -1.0, 1.0).astype(np.float32)
    return clipped.reshape(len(actions), -1)
  if len(sizes) > 1 and actions.ndim == 1:
    actions = arrays.list_joint_actions(sizes)[actions]
  columns = zip(sizes, actions.reshape(len(actions), -1).T, strict=True)
  return np.hstack([np.eye(n, dtype=np.float32)[x] for n, x in columns])


def _standardize(spec: specs.Array, observations: np.ndarray) -> np.ndarray:
  """Returns observations whose vectors have mean 0 and deviation 1."""
  shape = normalization.normalized_shape(spec)
  if not math.prod(shape) or (spec.dtype == np.uint8 and len(shape) > 1):
    return observations  # images
  vectors = observations.reshape(len(observations), -1)[:, : math.prod(shape)]
  mean, std = vectors.mean(axis=0), vectors.std(axis=0)
  return normalization.apply_to_first(
    numpy_ops,
    observations,
    mean.reshape(shape).astype(np.float32),
    (1.0 / np.where(std > 0, std, 1.0)).reshape(shape).astype(np.float32),
  )
