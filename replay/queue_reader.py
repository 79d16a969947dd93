"""QueueReader: takes whole batches out of a queue, and nothing else."""

import threading
import typing

import numpy as np
import reverb

from replay import shard_monitor, tables

_CHECK_S = 0.1  # between two checks whether the server is still up


class Samples(typing.NamedTuple):
  """A batch of I items, as `graph_loop.SampledUpdate` takes it."""

  keys: np.ndarray  # uint64 [I]
  probabilities: np.ndarray  # float64 [I]
  table_size: int  # items in the queue before
  data: np.ndarray  # uint8 [I, item bytes]


class QueueReader:
  """Reads one server's queue from one thread.

  `reverb.TrajectoryDataset` reads ahead, and a queue gives each item once: what
  was read ahead is lost with its iterator. A sampler that is asked for exactly
  one batch takes 1.6 ms for 8 items, a dataset of exactly one 22 ms
  (docs/libraries.md).
  """

  def __init__(self, monitor: shard_monitor.ShardMonitor, batch_size: int):
    """Connects at the first batch.

    Args:
      monitor: of the server.
      batch_size: items per batch.
    """
    self._monitor, self._batch_size = monitor, batch_size
    self._client: reverb.Client | None = None
    self._incarnation = 0  # of the server, that the client is for

  def take(self) -> Samples | None:
    """Takes a batch; None: the queue has no whole one, or is down."""
    status = self._monitor.status()
    if status is None or status.size < self._batch_size:
      return None
    if self._client is None or self._incarnation != self._monitor.incarnation:
      self._incarnation = self._monitor.incarnation
      self._client = reverb.Client(self._monitor.address)
    sampling = _Sampling(self._client, self._batch_size)
    while sampling.is_alive():
      sampling.join(_CHECK_S)
      if sampling.is_alive() and not self._monitor.up:
        self._client = None  # the thread waits for the server, maybe for ever
        return None
    if sampling.error is not None:
      self._client = None
      self._monitor.mark_lost()
      return None
    items = sampling.items
    return Samples(
      np.array([item.info.key for item in items], np.uint64),
      np.array([item.info.probability for item in items]),
      status.size,
      np.stack([np.asarray(item.data[0]) for item in items]),
    )


class _Sampling(threading.Thread):
  """One batch on its way, in a thread that its reader can abandon.

  Reverb's `sample` has no timeout: with a server that died, it waits until one
  is up at the address.
  """

  def __init__(self, client: reverb.Client, batch_size: int):
    super().__init__(name="queue-sampling", daemon=True)
    self._client, self._batch_size = client, batch_size
    self.items: list[typing.Any] = []
    self.error: Exception | None = None
    self.start()

  def run(self) -> None:
    try:
      self.items = list(
        self._client.sample(
          tables.TRANSITIONS, self._batch_size, emit_timesteps=False
        )
      )
    except (RuntimeError, reverb.errors.ReverbError) as error:
      self.error = error
