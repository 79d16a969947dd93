"""Commands: the settings of a run from which each node's command follows."""

import msgspec

from slipway.launch.orchestration import messages


class Commands(msgspec.Struct, forbid_unknown_fields=True):
  """The current settings of a run that its nodes have to follow.

  Attributes:
    workers: number of workers; workers with higher indices end.
    proxies: number of proxies that share the limit on environment steps.
    steps_per_s: limit on the environment steps per second of all workers
      together; 0 means no limit.
    paused: whether all nodes should pause.
    trainer_steps_limit: the trainer's last step; 0 means no limit, and None the
      config's limit.
    saves_requested: number of snapshots requested so far.
  """

  workers: int
  proxies: int = 0
  steps_per_s: float = 0.0
  paused: bool = False
  trainer_steps_limit: int | None = None
  saves_requested: int = 0

  def for_node(
    self, role: str, index: int, stop: bool, collected_version: int = 0
  ) -> messages.Command:
    """Returns the command for a node.

    Args:
      role: the node's role. A worker and a proxy get an equal share of the
        limit on steps; a worker with a proxy follows the proxy's commands.
      index: index of the node among those of its role.
      stop: whether the nodes of this role should end.
      collected_version: newest version with which all workers have collected
        their share of a round, which only the trainer needs.
    """
    if role == "trainer":
      return messages.Command(
        stop,
        self.paused,
        trainer_steps_limit=self.trainer_steps_limit,
        saves_requested=self.saves_requested,
        collected_version=collected_version,
      )
    if role == "worker":
      stop |= index >= self.workers
      share = self.steps_per_s / max(1, self.workers)
      return messages.Command(stop, self.paused, share, workers=self.workers)
    if role == "proxy":
      share = self.steps_per_s / max(1, self.proxies)
      return messages.Command(stop, self.paused, share)
    return messages.Command(stop, self.paused)
