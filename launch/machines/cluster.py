"""Cluster: starts, calls and kills a run's host agents on a Ray cluster."""

import contextlib
import logging
import pathlib
import tempfile
import time
import typing
import warnings
from collections.abc import Iterator, Sequence

import ray
from ray import exceptions
from ray.util import scheduling_strategies

from slipway.launch.machines import placement
from slipway.launch.runs import error_text

# Folder that contains the package's subpackages, whatever the folder's name.
_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Folders and files of the package, relative to _ROOT, which Ray sends to each
# machine.
_PACKAGE_PATHS = (
  "__init__.py",
  "configs",
  "environments",
  "replay",
  "agents",
  "launch",
)
# Longest sleep in seconds of a wait without pending calls.
_IDLE_S = 0.05


@contextlib.contextmanager
def _link_package() -> Iterator[pathlib.Path]:
  """Yields a temporary folder 'slipway' with links to the package's files."""
  # Ray names a package by its folder. The folder of a checkout may have any
  # name, and contains more than the package.
  with tempfile.TemporaryDirectory() as folder:
    package = pathlib.Path(folder, "slipway")
    package.mkdir()
    for path in _PACKAGE_PATHS:
      (package / path).symlink_to(_ROOT / path)
    yield package


class ActorDiedError(Exception):
  """Raised if a Ray actor has died, or could not be started."""


class Cluster:
  """A connection of this process, as the driver, to a Ray cluster.

  Attributes:
    address: 'host:port' of Ray's head node.
    dashboard: URL of Ray's dashboard, or None if the dashboard is off.
  """

  def __init__(self, address: str, modules: Sequence[pathlib.Path] = ()):
    """Connects to a cluster.

    Args:
      address: 'host:port' of Ray's head node, from `admission.authenticate`.
      modules: files and package folders of user modules, which Ray sends to
        each machine.

    Raises:
      ValueError: the connection failed.
    """
    self.address = address
    # Ray's warnings about future versions do not concern Slipway's users.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"ray\.")
    try:
      with _link_package() as package:
        connected = ray.init(
          address=self.address,
          log_to_driver=False,  # the agents' reports contain the logs
          logging_level=logging.ERROR,
          runtime_env={
            "py_modules": [str(package), *map(str, modules)],
            "excludes": ["**/__pycache__"],
          },
        )
    except (ConnectionError, RuntimeError, exceptions.RayError) as error:
      text = error_text.one_line(error)
      raise ValueError(
        f"--ray_address={self.address} can't be used ({text}): give the "
        "address that `ray start` has printed, on a machine of that cluster, "
        "which has the cluster's token in ~/.ray/auth_token"
      ) from error
    dashboard = connected.dashboard_url
    self.dashboard = f"http://{dashboard}" if dashboard else None
    self._driver_node = ray.get_runtime_context().get_node_id()

  def machines(self) -> list[placement.Machine]:
    """Returns the machines that Ray lists as alive."""
    return [
      placement.Machine(
        node["NodeID"],
        node["NodeManagerAddress"],
        node["Resources"].get("CPU", 0.0),
        node["Resources"].get("GPU", 0.0),
        node["NodeID"] == self._driver_node,
      )
      for node in ray.nodes()
      if node["Alive"]
    ]

  def start_actor(
    self,
    actor_class: type,
    *args: typing.Any,
    machine: placement.Machine,
    **options: typing.Any,
  ) -> "RemoteActor":
    """Starts an actor on a machine, and returns the handle by which to call it.

    Args:
      actor_class: class of the actor, with a method `close`.
      **options: Ray's options, such as `num_cpus`.
    """
    strategy = scheduling_strategies.NodeAffinitySchedulingStrategy(
      machine.id, soft=False
    )
    remote = ray.remote(actor_class).options(
      scheduling_strategy=strategy, **options
    )
    return RemoteActor(remote.remote(*args))

  def close(self) -> None:
    """Disconnects from the cluster; Ray then ends all remaining actors."""
    ray.shutdown()


class RemoteActor:
  """A handle by which the driver calls an actor, one call at a time.

  Calls are asynchronous:

  ```python
  actor.call("poll", command)
  cluster.wait([actor], timeout_s=1.0)
  report = actor.get_result()
  ```
  """

  def __init__(self, actor: typing.Any):
    """Makes a handle without a pending call, from Ray's handle."""
    self._actor = actor
    self._call: typing.Any = None

  def call(self, method: str, *args: typing.Any) -> None:
    """Starts a call of a method, unless a call is pending."""
    assert self._call is None
    self._call = getattr(self._actor, method).remote(*args)

  def shut_down(self) -> None:
    """Starts a call of the actor's `close`; a pending call is abandoned."""
    self._call = self._actor.close.remote()

  @property
  def pending(self) -> bool:
    """Whether `get_result` has not yet returned the result of the last call."""
    return self._call is not None

  def get_result(self) -> typing.Any:
    """Returns the result of the pending call, without waiting for it.

    Raises:
      TimeoutError: the call has not returned yet, and stays pending; or Ray
        could not reach the actor, and no call is pending, so it can be called
        again.
      ActorDiedError: the actor has died, or could not be started.
      RuntimeError: the method has raised an error.
    """
    call, self._call = self._call, None
    try:
      return ray.get(call, timeout=0)
    except exceptions.GetTimeoutError:
      self._call = call
      raise TimeoutError from None
    except exceptions.ActorUnavailableError:
      # Ray does not know yet whether the actor has died.
      raise TimeoutError from None
    except exceptions.RayTaskError as error:
      raise RuntimeError(error_text.one_line(error.cause)) from error
    # Actors that have died, can't be scheduled or set up, or whose machine has
    # no memory left.
    except exceptions.RayError as error:
      raise ActorDiedError(error_text.one_line(error)) from None

  def kill(self) -> None:
    """Kills the actor's process at once."""
    ray.kill(self._actor)


def wait(actors: Sequence[RemoteActor], timeout_s: float) -> None:
  """Waits until the pending call of any actor has returned, or for a timeout.

  If no actor has a pending call, this function sleeps for 0.05 s at most, so
  that a caller's loop leaves the processor to others.
  """
  calls = [actor._call for actor in actors if actor.pending]
  if calls:
    ray.wait(calls, timeout=timeout_s)
  else:
    time.sleep(min(timeout_s, _IDLE_S))
