"""Distributed reinforcement learning on Reverb, Launchpad, Acme, TensorFlow.

    import slipway

    config = slipway.load_config("apex_dqn:cartpole")
    config.learner.learning_rate = 1e-3
    result = slipway.train(config, name="first")
    print(result.summary.best_eval_return, result.curves["eval_return"])

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
  "Policy": "slipway.launch.policy",
  "RunResult": "slipway.launch.session",
  "RunEndedError": "slipway.launch.external",
  "Training": "slipway.launch.session",
  "connect": "slipway.launch.external",
  "load": "slipway.launch.policy",
  "load_config": "slipway.launch.session",
  "load_result": "slipway.launch.session",
  "start": "slipway.launch.session",
  "train": "slipway.launch.session",
}
__all__ = [
  "Policy",
  "RunEndedError",
  "RunResult",
  "Training",
  "connect",
  "load",
  "load_config",
  "load_result",
  "start",
  "train",
]

if typing.TYPE_CHECKING:
  from slipway.launch.external import RunEndedError as RunEndedError
  from slipway.launch.external import connect as connect
  from slipway.launch.policy import Policy as Policy
  from slipway.launch.policy import load as load
  from slipway.launch.session import RunResult as RunResult
  from slipway.launch.session import Training as Training
  from slipway.launch.session import load_config as load_config
  from slipway.launch.session import load_result as load_result
  from slipway.launch.session import start as start
  from slipway.launch.session import train as train


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
