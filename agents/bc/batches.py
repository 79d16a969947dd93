"""Batches of recorded observations and actions, for behaviour cloning."""

import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.environments import recordings


class Steps(typing.NamedTuple):
  """N recorded steps; N is the batch size in a batch.

  Attributes:
    observation: observations before the steps, [N, ...].
    action: recorded actions, [N, ...].
  """

  observation: typing.Any
  action: typing.Any


class Batches:
  """Batches of all recorded steps, in a new random order per epoch.

  See `core.Batches`. The seed and the number of the update determine the steps
  of a batch, so a resumed run continues with the same batches.
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    """Reads all episodes of `config.dataset.path`.

    Raises:
      ValueError: the folder has no episodes of this environment, or fewer steps
        than a batch.
    """
    path = config.dataset.path
    episodes = recordings.read(path, spec)
    ends = np.cumsum(episodes.lengths + 1) - 1
    # An episode's last observation has no action.
    observations = np.delete(episodes.observations, ends, axis=0)
    self._steps = Steps(observations, episodes.actions)
    self._batch_size, self._seed = config.learner.batch_size, config.seed
    count = len(episodes.actions)
    self._per_epoch = count // self._batch_size
    if not self._per_epoch:
      raise ValueError(
        f"config.dataset.path={path!r} has {count} steps, fewer than "
        f"config.learner.batch_size={self._batch_size}, so no batch can be "
        "made: record more episodes, or lower the batch size"
      )
    self._epoch, self._order = -1, np.arange(0)

  def batch(self, step: int) -> Steps:
    """Returns the batch of an update, after `step` earlier updates."""
    epoch, index = divmod(step, self._per_epoch)
    if epoch != self._epoch:
      random = np.random.default_rng((self._seed, epoch))
      self._epoch = epoch
      self._order = random.permutation(len(self._steps.action))
    start = index * self._batch_size
    chosen = self._order[start : start + self._batch_size]
    return Steps(*(column[chosen] for column in self._steps))
