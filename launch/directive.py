"""A directive: what the control node asks of a node."""

import math
import numbers
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
  """

  stop: bool = False
  paused: bool = False
  steps_per_s: float = 0.0
  trainer_steps: int | None = None


class Directives:
  """What is asked of the whole run, shared out among its nodes.

  Attributes:
    paused: whether no node should make steps.
    trainer_steps: the limit of the trainer's steps; None: as the config says.
  """

  def __init__(self, expected: Mapping[str, int], steps_per_s: float):
    """Starts without a pause.

    Args:
      expected: how many nodes of each role there are.
      steps_per_s: as `set_steps_per_s` takes it.

    Raises:
      ValueError: `steps_per_s` is negative or no finite number.
    """
    self._expected = dict(expected)
    self.paused = False
    self.trainer_steps: int | None = None
    self.set_steps_per_s(steps_per_s)

  @property
  def steps_per_s(self) -> float:
    """Environment steps a second of all workers together; 0: no limit."""
    return self._steps_per_s

  def set_steps_per_s(self, value: float) -> None:
    """Asks for so many environment steps a second; 0: no limit.

    Raises:
      ValueError: the value is negative or no finite number.
    """
    if not (
      isinstance(value, numbers.Real) and math.isfinite(value) and value >= 0
    ):
      raise ValueError(
        f"environment_steps_per_s={value!r} must be a finite number of at "
        "least 0 (0: no limit), or workers could not be held to it: the rate "
        "stays as it was; ask for another"
      )
    self._steps_per_s = float(value)

  def to(self, role: str, stop: bool) -> Directive:
    """The directive of a node of a role.

    Args:
      role: of the node; only proxies and workers have a share of the steps.
      stop: whether it should end.
    """
    share = self._steps_per_s if role in ("proxy", "worker") else 0.0
    limit = self.trainer_steps if role == "trainer" else None
    return Directive(
      stop, self.paused, share / self._expected.get(role, 1), limit
    )
