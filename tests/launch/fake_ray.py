"""A stand-in for Ray, for tests of calls of actors without a cluster."""

import contextlib
import importlib
import sys
import types

# Modules that import Ray; they are imported from scratch before and after.
_USERS = (
  "slipway.launch.machines.cluster",
  "slipway.launch.machines.cluster_supervisor",
  "slipway.launch.sweeps.slots",
)
# Ray's errors, each with its base class.
_ERRORS = {
  "RayError": "",
  "GetTimeoutError": "RayError",
  "RayActorError": "RayError",
  "ActorDiedError": "RayActorError",
  "ActorUnavailableError": "RayActorError",
  "RayTaskError": "RayError",
  "ActorUnschedulableError": "RayError",
  "OutOfMemoryError": "RayError",
  "RuntimeEnvSetupError": "RayError",
}


class Actor:
  """Ray's handle of an actor, whose calls are executed by `ray.get`.

  Example: `Actor(poll=lambda stops: 3).poll.remote(0)`.
  """

  def __init__(self, **methods):
    for name, method in methods.items():
      remote = types.SimpleNamespace(
        remote=lambda *args, method=method: lambda: method(*args)
      )
      setattr(self, name, remote)


@contextlib.contextmanager
def installed():
  """Installs the stand-in while the block runs, and yields `ray.exceptions`."""
  exceptions = types.ModuleType("ray.exceptions")
  for name, base in _ERRORS.items():
    setattr(
      exceptions, name, type(name, (vars(exceptions).get(base, Exception),), {})
    )
  ray = types.ModuleType("ray")
  ray.__dict__.update(
    exceptions=exceptions,
    get=lambda call, timeout: call(),
    wait=lambda calls, timeout: None,
    kill=lambda actor: None,
  )
  util = types.ModuleType("ray.util")
  util.__dict__["scheduling_strategies"] = None
  modules = {"ray": ray, "ray.exceptions": exceptions, "ray.util": util}
  before = {name: sys.modules.get(name) for name in modules}
  sys.modules.update(modules)
  _forget_users()
  try:
    yield exceptions
  finally:
    _forget_users()
    for name, module in before.items():
      del sys.modules[name]
      if module is not None:
        sys.modules[name] = module


def _forget_users():
  """Makes the next import of a module that imports Ray load it again."""
  for name in _USERS:
    if sys.modules.pop(name, None) is not None:
      package, _, leaf = name.rpartition(".")
      delattr(importlib.import_module(package), leaf)
