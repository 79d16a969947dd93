"""Commands: derives each node's command from the run's current settings."""

import msgspec

from slipway.launch.control import messages


class Commands(msgspec.Struct, forbid_unknown_fields=True):
  """The run's current settings, from which each node's command is made.

  Attributes:
    workers: target number of workers.
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
    stopping: bool,
    collected_version: int = 0,
    proxy_share: float = 1.0,
    last_snapshot_s: float = messages.Command().last_snapshot_s,
  ) -> messages.Command:
    """Returns the command for one node.

    Workers get equal shares of the limit on steps. A worker that has a proxy
    follows the proxy's commands instead.

    Args:
      role: the node's role, such as 'worker'.
      stopping: whether the run is stopping. Only external processes get the
        stop, since the runner ends the nodes.
      collected_version: newest version of the variables with which all workers
        have collected their share of a round; only the trainer receives it.
      proxy_share: part of the limit on steps that a proxy's workers get
        together; see `NodeStates.compute_proxy_share`.
      last_snapshot_s: seconds that the last snapshot may take; only the trainer
        receives it.
    """
    if role == "trainer":
      return messages.Command(
        paused=self.paused,
        workers=self.workers,
        trainer_steps_limit=self.trainer_steps_limit,
        saves_requested=self.saves_requested,
        collected_version=collected_version,
        last_snapshot_s=last_snapshot_s,
      )
    steps_per_s = 0.0
    if role == "worker":
      steps_per_s = self.steps_per_s / max(1, self.workers)
    elif role == "proxy":
      steps_per_s = self.steps_per_s * proxy_share
    return messages.Command(
      stopping and role == messages.EXTERNAL,
      self.paused,
      steps_per_s,
      workers=self.workers if role == "worker" else 0,
    )
