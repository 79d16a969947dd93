"""Finding: one cause for which a run may learn nothing, and its check."""

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping, Sequence

import ml_collections
import msgspec

from slipway.configs import base, fields
from slipway.launch.runs import run_status

if typing.TYPE_CHECKING:  # The launcher, which advises, plays no environment.
  from slipway.environments import random_play

# Severities, the worst first: a problem is a likely cause even in a run that
# has reached its target; a warning, such as a symptom, then no longer matters.
PROBLEM, WARNING = "problem", "warning"
SEVERITIES = (PROBLEM, WARNING)


class Finding(msgspec.Struct, frozen=True):
  """What a check has found.

  Attributes:
    name: name of the check, such as 'learning rate'.
    severity: one of `SEVERITIES`.
    sentence: the evidence, what follows from it, and what to do.
  """

  name: str
  severity: str
  sentence: str


@dataclasses.dataclass(frozen=True)
class Evidence:
  """What is known about a run; checks give no finding for what is unknown.

  Attributes:
    config: the whole config.
    metrics: metrics of the learner by name: of its newest update in a live run,
      medians of the run's last part in a run that is examined.
    returns: mean returns of the newest evaluations, the oldest first.
    lengths: mean lengths of the same evaluations' episodes, in steps.
    info: the last evaluation's mean of each number of `evaluation.info` that
      its episodes had; None without an evaluation.
    training_return: mean return of the workers' last episodes, or None.
    is_solved: whether the last evaluation has reached `limits.target_return`.
    status: the run's newest status, or None.
    probe: measurements of random play, or None.
  """

  config: ml_collections.ConfigDict
  metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
  returns: Sequence[float] = ()
  lengths: Sequence[float] = ()
  info: Mapping[str, float] | None = None
  training_return: float | None = None
  is_solved: bool = False
  status: run_status.RunStatus | None = None
  probe: "random_play.Probe | None" = None

  def get(self, name: str) -> typing.Any:
    """Returns a field of the config, or None if the algorithm has no such."""
    return fields.get(self.config, name)

  def metric(self, name: str) -> float:
    """Returns a metric, or nan if it is not known."""
    value = self.metrics.get(name)
    return math.nan if value is None else value

  def show(self, name: str) -> str:
    """Returns 'config.NAME=VALUE' of a field."""
    value = self.get(name)
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return f"config.{name}={text}"

  def list_unset_norms(self, *names: str) -> list[str]:
    """Returns the normalizations among `names` that the config could set."""
    return [
      f"config.normalization.{name}=True"
      for name in names
      if self.get(f"normalization.{name}") is False
    ]

  @property
  def played(self) -> "random_play.Probe":
    """The measurements of random play, for checks that need them."""
    assert self.probe is not None
    return self.probe

  @property
  def episode_steps(self) -> float:
    """Length of long episodes, in steps; nan if it is unknown."""
    known = [*self.lengths]
    if self.status is not None and self.status.episodes:
      known.append(self.status.env_steps / self.status.episodes)
    if self.probe is not None:
      known += self.probe.lengths
    return float(max(known, default=math.nan))

  @property
  def updates(self) -> int:
    """The learner's updates, or 0 if they are not known."""
    return 0 if self.status is None else self.status.trainer_steps

  @property
  def has_returns_of_training(self) -> bool:
    """Whether evaluations and training have the same task."""
    return self.training_return is not None and (
      not base.has_evaluation_environment(self.config)
    )


# Returns a finding's sentence, or None.
Function = Callable[[Evidence], str | None]


class Check(typing.NamedTuple):
  """A check of a run's evidence.

  Attributes:
    name: the name of its findings.
    severity: the severity of its findings.
    function: returns the sentence of a finding, or None.
    live_after_s: seconds for which a live run's evidence must last before the
      sentence becomes the run's advice; None: it is for `slipway doctor` only.
    needs_play: whether it is silent where the environment was not played.
  """

  name: str
  severity: str
  function: Function
  live_after_s: float | None = None
  needs_play: bool = False

  def find(self, evidence: Evidence) -> Finding | None:
    """Returns the finding for the evidence of a run, or None."""
    if self.needs_play and evidence.probe is None:
      return None
    sentence = self.function(evidence)
    return Finding(self.name, self.severity, sentence) if sentence else None


class Checks(list[Check]):
  """A list of checks, to which a module's functions are added.

  ```python
  CHECKS = finding.Checks()

  @CHECKS.add("dead units", finding.WARNING, live_after_s=10.0)
  def _check_dead_units(evidence):
    if evidence.metric("dead_units") > 0.9:
      return "most units are dead, so they learn nothing: ..."
  ```
  """

  def __init__(self, needs_play: bool = False):
    """Has no check yet; `needs_play` is that of all its checks."""
    super().__init__()
    self._needs_play = needs_play

  def add(
    self, name: str, severity: str, live_after_s: float | None = None
  ) -> Callable[[Function], Function]:
    """Returns a decorator that adds a function; see `Check`."""

    def add_function(function: Function) -> Function:
      self.append(
        Check(name, severity, function, live_after_s, self._needs_play)
      )
      return function

    return add_function
