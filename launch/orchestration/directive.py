"""A directive: what the control node asks of a node."""

import typing
from collections.abc import Mapping


class Directive(typing.NamedTuple):
  """What a node should do now; the default asks for nothing.

  Crosses Courier as a plain tuple: `tuple(directive)` at the control node,
  `Directive(*answer)` at the other end.

  Attributes:
    stop: whether the node should end.
    paused: whether it should make no steps until it is told otherwise.
    steps_per_s: environment steps a second that the node may make: of all of
      a proxy's workers together, of a worker its own; 0: as many as it can.
    trainer_steps: the limit of the trainer's steps, 0: none; None: as the
      config says.
    saves: how many snapshots were asked for so far, besides the regular ones.
    collected_version: of the variables with which every worker has collected
      its share of a round; 0: none yet.
    workers: how many there are, for a worker's share of a round; 0: as many as
      the config says.
  """

  stop: bool = False
  paused: bool = False
  steps_per_s: float = 0.0
  trainer_steps: int | None = None
  saves: int = 0
  collected_version: int = 0
  workers: int = 0


class Directives:
  """What is asked of the whole run, shared out among its nodes.

  Attributes:
    paused: whether no node should make steps.
    steps_per_s: environment steps a second of all workers; 0: no limit.
    trainer_steps: the limit of the trainer's steps; None: as the config says.
    saves: how many snapshots were asked for.
    collected_version: with which all workers have collected their share.
    workers: how many there should be; those of higher indices end.
    proxies: how many share the steps.
  """

  def __init__(self, expected: Mapping[str, int], steps_per_s: float):
    """Starts without a pause.

    Args:
      expected: how many nodes of each role there are.
      steps_per_s: environment steps a second of all workers; 0: no limit.
    """
    self.proxies = expected.get("proxy", 0)
    self.workers = expected["worker"]
    self.steps_per_s = steps_per_s
    self.paused = False
    self.trainer_steps: int | None = None
    self.saves = 0
    self.collected_version = 0

  def to(self, role: str, index: int, stop: bool) -> Directive:
    """The directive of a node.

    Args:
      role: of the node; only proxies and workers have a share of the steps.
      index: of the node among those of its role.
      stop: whether the nodes of its role should end.
    """
    if role == "trainer":
      return Directive(
        stop,
        self.paused,
        trainer_steps=self.trainer_steps,
        saves=self.saves,
        collected_version=self.collected_version,
      )
    if role == "worker":
      share = self.steps_per_s / self.workers
      stop |= index >= self.workers
      return Directive(stop, self.paused, share, workers=self.workers)
    if role == "proxy":
      return Directive(stop, self.paused, self.steps_per_s / self.proxies)
    return Directive(stop, self.paused)
