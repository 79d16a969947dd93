"""Distributed reinforcement learning on Reverb, Launchpad, Acme, TensorFlow.

    import slipway

    config = slipway.load_config("apex_dqn:cartpole")
    config.learner.learning_rate = 1e-3
    result = slipway.train(config, name="first")
    print(result.summary.evaluation.mean_return, result.curves["eval_return"])

    policy = slipway.load("runs/first")
    action = policy(observation)

`slipway --help` shows the equivalent commands. Submodules are imported on first
use.
"""

import importlib
import typing

__version__ = "0.1.0"

# Module that defines each public name, by the name.
_PUBLIC = {
  "Policy": "slipway.launch.api.policy",
  "RunResult": "slipway.launch.api.session",
  "RunEndedError": "slipway.launch.api.external",
  "Training": "slipway.launch.api.session",
  "connect": "slipway.launch.api.external",
  "environment_context": "slipway.environments.context",
  "load": "slipway.launch.api.policy",
  "load_config": "slipway.launch.api.session",
  "load_result": "slipway.launch.api.session",
  "start": "slipway.launch.api.session",
  "train": "slipway.launch.api.session",
}
__all__ = [
  "Policy",
  "RunEndedError",
  "RunResult",
  "Training",
  "connect",
  "environment_context",
  "load",
  "load_config",
  "load_result",
  "start",
  "train",
]

if typing.TYPE_CHECKING:
  from slipway.environments.context import (
    environment_context as environment_context,
  )
  from slipway.launch.api.external import RunEndedError as RunEndedError
  from slipway.launch.api.external import connect as connect
  from slipway.launch.api.policy import Policy as Policy
  from slipway.launch.api.policy import load as load
  from slipway.launch.api.session import RunResult as RunResult
  from slipway.launch.api.session import Training as Training
  from slipway.launch.api.session import load_config as load_config
  from slipway.launch.api.session import load_result as load_result
  from slipway.launch.api.session import start as start
  from slipway.launch.api.session import train as train


def __getattr__(name: str) -> typing.Any:
  """Imports the module of a public name, and returns the named object.

  Raises:
    AttributeError: there is no such public name.
  """
  if name not in _PUBLIC:
    raise AttributeError(f"module 'slipway' has no attribute {name!r}")
  return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
  """Returns the public names, for `dir(slipway)`."""
  return __all__
