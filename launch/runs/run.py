"""Run: the arguments of a launch."""

import dataclasses

import ml_collections
from acme import specs

from slipway.launch.runs import run_folder


@dataclasses.dataclass(frozen=True)
class Run:
  """A run to execute, as all launchers receive it.

  Attributes:
    config: the whole config, validated.
    spec: specification of one environment.
    folder: the run's folder; the run continues from a snapshot in it.
    started_at_s: unix seconds of the user's command.
  """

  config: ml_collections.ConfigDict
  spec: specs.EnvironmentSpec
  folder: run_folder.RunFolder
  started_at_s: float
