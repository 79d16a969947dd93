"""Commands: derives each node's command from the run's current settings."""

import msgspec

from slipway.launch.orchestration import messages, stop_order


class Commands(msgspec.Struct, forbid_unknown_fields=True):
  """The run's current settings, from which each node's command is made.

  Attributes:
    workers: target number of workers; a worker with this index or a higher one
      is stopped.
    steps_per_s: limit on the environment steps per second of all workers
      together; 0 means no limit.
    paused: whether all nodes should pause.
    trainer_steps_limit: trainer step at which the trainer stops; 0 means no
      limit, and None the config's limit.
    saves_requested: number of snapshots that users have requested so far.
  """

  workers: int
  steps_per_s: float = 0.0
  paused: bool = False
  trainer_steps_limit: int | None = None
  saves_requested: int = 0

  def for_node(
    self,
    role: str,
    index: int,
    stop: bool,
    collected_version: int = 0,
    proxy_share: float = 1.0,
    last_snapshot_s: float = stop_order.last_snapshot_s(stops_quickly=True),
  ) -> messages.Command:
    """Returns the command for one node.

    Workers get equal shares of the limit on steps. A worker that has a proxy
    follows the proxy's commands instead.

    Args:
      role: the node's role, such as 'worker'.
      index: index of the node among the nodes of its role.
      stop: whether the nodes of this role should stop.
      collected_version: newest version of the variables with which all workers
        have collected their share of a round; only the trainer receives it.
      proxy_share: part of the limit on steps that a proxy's workers get
        together; see `NodeStates.compute_proxy_share`.
      last_snapshot_s: seconds that the last snapshot may take; only the trainer
        receives it.
    """
    if role == "trainer":
      return messages.Command(
        stop,
        self.paused,
        workers=self.workers,
        trainer_steps_limit=self.trainer_steps_limit,
        saves_requested=self.saves_requested,
        collected_version=collected_version,
        last_snapshot_s=last_snapshot_s,
      )
    if role == "worker":
      stop |= index >= self.workers
      share = self.steps_per_s / max(1, self.workers)
      return messages.Command(stop, self.paused, share, workers=self.workers)
    if role == "proxy":
      share = self.steps_per_s * proxy_share
      return messages.Command(stop, self.paused, share)
    return messages.Command(stop, self.paused)
