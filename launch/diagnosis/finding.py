"""Finding: what a check has found in the evidence about a run."""

import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence

import ml_collections
import msgspec

from slipway.configs import fields
from slipway.launch.runs import run_status

if typing.TYPE_CHECKING:  # The launcher, which advises, plays no environment.
  from slipway.environments import random_play

# Severities. A problem is a likely cause even in a run that has reached its
# target, where a warning no longer matters. What is ok is a mere fact.
PROBLEM, WARNING, OK = "problem", "warning", "ok"


class Finding(msgspec.Struct, frozen=True):
  """What a check has found.

  Attributes:
    name: name of the cause, such as 'learning rate'.
    severity: `PROBLEM`, `WARNING` or `OK`.
    sentence: the evidence, what follows from it, and what to do.
  """

  name: str
  severity: str
  sentence: str


def ok(name: str, sentence: str) -> Finding:
  return Finding(name, OK, sentence)


def problem(name: str, sentence: str) -> Finding:
  return Finding(name, PROBLEM, sentence)


def warning(name: str, sentence: str) -> Finding:
  return Finding(name, WARNING, sentence)


def judge(name: str, text: str, is_good: bool, advice: str) -> Finding:
  """Returns a finding that is ok, or a warning with advice."""
  return ok(name, text) if is_good else warning(name, f"{text}: {advice}")


@dataclasses.dataclass(frozen=True)
class Evidence:
  """What is known about a run; checks find nothing in what is unknown.

  Attributes:
    config: the whole config.
    status: the run's newest status; that of a new run if there is none.
    metrics: metrics of the learner by name: of its newest update in a live run,
      medians of the run's last part in a run that is examined.
    returns: mean returns of the newest evaluations, the oldest first.
    lengths: mean lengths of the same evaluations' episodes, in steps.
    probe: measurements of random play, or None.
    faults: see `probe_layers.find_faults`; 'environment' if that has failed.
  """

  config: ml_collections.ConfigDict
  status: run_status.RunStatus = dataclasses.field(
    default_factory=run_status.RunStatus
  )
  metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
  returns: Sequence[float] = ()
  lengths: Sequence[float] = ()
  probe: "random_play.Probe | None" = None
  faults: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def get(self, name: str) -> typing.Any:
    """Returns a field of the config, or None if the algorithm has no such."""
    return fields.get(self.config, name)

  def show(self, name: str) -> str:
    """Returns 'config.NAME=VALUE' of a field."""
    value = self.get(name)
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return f"config.{name}={text}"

  def metric(self, name: str) -> float:
    """Returns a metric, or nan if it is not known."""
    value = self.metrics.get(name)
    return math.nan if value is None else value

  @property
  def is_solved(self) -> bool:
    """Whether the last evaluation has reached the target, with rewards."""
    is_at_target = self.status.evaluation.at_target > 0
    return is_at_target and "reward sign" not in self.faults

  @property
  def episode_steps(self) -> float:
    """Length of long episodes, in steps; nan if it is unknown."""
    known = [*self.lengths, *(self.probe.lengths if self.probe else ())]
    if self.status.episodes:
      known.append(self.status.env_steps / self.status.episodes)
    return float(max(known, default=math.nan))
