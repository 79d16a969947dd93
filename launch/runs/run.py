"""Run: what a launch is given, and all of its parts need."""

import dataclasses

import ml_collections
from acme import specs

from slipway.launch.runs import run_folder


@dataclasses.dataclass(frozen=True)
class Run:
  """One run.

  Attributes:
    config: the whole config, validated.
    spec: of one environment.
    folder: where it is kept; what it has a snapshot of goes on.
    started_at_s: unix seconds of the user's command.
  """

  config: ml_collections.ConfigDict
  spec: specs.EnvironmentSpec
  folder: run_folder.RunFolder
  started_at_s: float
