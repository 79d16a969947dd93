"""Run: the arguments with which a launcher starts or resumes a run."""

import dataclasses

import ml_collections
from acme import specs

from slipway.launch.runs import run_folder


@dataclasses.dataclass(frozen=True)
class Run:
  """The arguments with which a launcher starts or resumes a run.

  Attributes:
    config: the whole config, validated.
    spec: specification of one environment.
    folder: the run's folder. If it has a snapshot, the run is resumed from it.
    started_at_s: unix seconds of the user's command.
  """

  config: ml_collections.ConfigDict
  spec: specs.EnvironmentSpec
  folder: run_folder.RunFolder
  started_at_s: float
