"""The way of new priorities from the learner to the table."""

import reverb
import tensorflow as tf


class PriorityUpdater:
  """Pushes the learner's priorities to a table, from inside a graph."""

  def __init__(self, server_address: str, table: str):
    """Connects lazily.

    Args:
      server_address: of the Reverb server.
      table: its name.
    """
    self._client = reverb.TFClient(server_address)
    self._table = table

  def update(self, keys: tf.Tensor, priorities: tf.Tensor) -> None:
    """Sets the priorities of items; those that were evicted are left out.

    Args:
      keys: uint64 [B].
      priorities: float [B].
    """
    self._client.update_priorities(
      self._table, keys, tf.cast(priorities, tf.float64)
    )
