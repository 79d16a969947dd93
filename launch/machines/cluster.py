"""Cluster: all use of Ray, which starts host agents and monitors them."""

import contextlib
import logging
import pathlib
import tempfile
import typing
import warnings
from collections.abc import Iterator, Sequence

import ray
from ray import exceptions
from ray.util import scheduling_strategies

from slipway.launch.machines import host_agent, placement

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Folders and files of the package, which Ray sends to each machine.
_PACKAGE_PATHS = (
  "__init__.py",
  "configs",
  "environments",
  "replay",
  "agents",
  "launch",
)


@contextlib.contextmanager
def _package() -> Iterator[pathlib.Path]:
  """Yields a temporary folder named slipway with links to the package.

  Ray names a module by its folder, but a checkout's folder may have any name
  and holds more than the package.
  """
  with tempfile.TemporaryDirectory() as folder:
    package = pathlib.Path(folder, "slipway")
    package.mkdir()
    for path in _PACKAGE_PATHS:
      (package / path).symlink_to(_ROOT / path)
    yield package


class AgentDiedError(Exception):
  """Raised if the Ray actor of a host agent has died."""


class Cluster:
  """A connection to a Ray cluster, with this process as the driver.

  Attributes:
    address: 'host:port' of Ray's head.
    dashboard: URL of Ray's dashboard, or None if the dashboard is off.
  """

  def __init__(self, address: str, modules: Sequence[pathlib.Path] = ()):
    """Connects to a cluster.

    Args:
      address: 'host:port' of Ray's head, from `admission.authenticate`.
      modules: files and package folders of user modules, which Ray sends to
        each machine.

    Raises:
      ValueError: the cluster cannot be used.
    """
    self.address = address
    # Ray's warnings about future versions do not concern Slipway's users.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"ray\.")
    try:
      with _package() as package:
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
      text = " ".join(str(error).split())
      raise ValueError(
        f"--ray_address={self.address} can't be used ({text}): give the "
        "address that `ray start` has printed, on a machine of that cluster"
      ) from error
    dashboard = connected.dashboard_url
    self.dashboard = f"http://{dashboard}" if dashboard else None
    self._driver_node = ray.get_runtime_context().get_node_id()

  def machines(self) -> list[placement.Machine]:
    """Returns the machines of the cluster that are alive."""
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

  def start(
    self, machine: placement.Machine, task: host_agent.AgentTask
  ) -> "RemoteAgent":
    """Starts a host agent on a machine; returns the agent's handle.

    Args:
      machine: the machine.
      task: the node group that the agent will run.
    """
    pinned = scheduling_strategies.NodeAffinitySchedulingStrategy(
      machine.id, soft=False
    )
    actor = (
      ray.remote(host_agent.HostAgent)
      .options(
        num_cpus=task.group.cpus,
        num_gpus=task.group.gpus,
        max_concurrency=2,  # so that a call can run during `start`
        scheduling_strategy=pinned,
      )
      .remote(task)
    )
    return RemoteAgent(actor)

  def close(self) -> None:
    """Disconnects from the cluster; Ray ends the agents that are left."""
    ray.shutdown()


class RemoteAgent:
  """A handle of a host agent, for one asynchronous call at a time.

  ```python
  agent.call("poll", command)
  cluster.wait([agent], timeout_s=1.0)
  report = agent.get_result()
  ```
  """

  def __init__(self, actor: typing.Any):
    """Wraps the Ray actor of a host agent."""
    self._actor = actor
    self._call: typing.Any = None

  def call(self, method: str, *args: typing.Any) -> None:
    """Starts a call of a method, whose result `get_result` returns.

    Args:
      method: name of a method of `host_agent.HostAgent`.
      *args: arguments of the method.
    """
    assert self._call is None
    self._call = getattr(self._actor, method).remote(*args)

  def shut_down(self) -> None:
    """Starts a call of `close`; an earlier call is abandoned."""
    self._call = self._actor.close.remote()

  @property
  def pending(self) -> bool:
    """Whether there is a call whose result was not returned yet."""
    return self._call is not None

  def get_result(self) -> typing.Any:
    """Returns the result of the last call, without waiting for it.

    Raises:
      TimeoutError: the call has not returned yet, and stays pending.
      AgentDiedError: the agent has died.
      RuntimeError: the method failed.
    """
    call, self._call = self._call, None
    try:
      return ray.get(call, timeout=0)
    except exceptions.GetTimeoutError:
      self._call = call
      raise TimeoutError from None
    except exceptions.ActorUnavailableError:
      # Ray does not know yet whether the agent has died.
      raise TimeoutError from None
    except exceptions.RayActorError as error:
      raise AgentDiedError(" ".join(str(error).split())) from None
    except exceptions.RayTaskError as error:
      raise RuntimeError(" ".join(str(error.cause).split())) from error

  def kill(self) -> None:
    """Kills the agent's process."""
    ray.kill(self._actor)


def wait(agents: Sequence[RemoteAgent], timeout_s: float) -> None:
  """Waits until a pending call of any agent has returned.

  Args:
    agents: the agents; those without a pending call are left out.
    timeout_s: seconds after which the wait ends in any case. There is no wait
      if no call is pending.
  """
  calls = [agent._call for agent in agents if agent.pending]
  if calls:
    ray.wait(calls, timeout=timeout_s)
