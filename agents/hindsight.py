"""Hindsight: makes the adder of transitions with goals that were achieved."""

import ml_collections

from slipway.agents import core
from slipway.configs import rules
from slipway.environments import goals
from slipway.replay.items import adder as adder_lib
from slipway.replay.items import hindsight_adder


def check(config: ml_collections.ConfigDict) -> None:
  """Checks that the environment's own functions reward its goals.

  Raises:
    ValueError: it has no goals, or other rewards than its steps.
    user_code.UserCodeError: the environment failed.
  """
  if config.replay.hindsight != "none":
    found = goals.Goals(config.environment)
    found.check()
    found.close()


def wrap(
  config: ml_collections.ConfigDict, adder: adder_lib.NStepAdder
) -> core.Adder:
  """Returns the adder, with relabelled transitions if the config has them."""
  if config.replay.hindsight == "none":
    return adder
  return hindsight_adder.HindsightAdder(
    adder,
    goals.Goals(config.environment),
    config.topology.environments_per_worker,
    rules.count_relabelled(config),
    config.replay.hindsight == "final",
    config.adder.discount,
    config.seed,
  )
