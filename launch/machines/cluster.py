"""Cluster: what Slipway asks of Ray. It places, watches, and no more."""

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

from slipway.launch.machines import agent, placement

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# The parts of the package, which is sent to each machine.
_PARTS = (
  "__init__.py",
  "configs",
  "environments",
  "replay",
  "agents",
  "launch",
)


@contextlib.contextmanager
def _package() -> Iterator[pathlib.Path]:
  """Makes a folder named slipway of links to the package and nothing else.

  Ray names a module by its folder, and the folder of a checkout has any name
  and holds more than the package.
  """
  with tempfile.TemporaryDirectory() as folder:
    package = pathlib.Path(folder, "slipway")
    package.mkdir()
    for part in _PARTS:
      (package / part).symlink_to(_ROOT / part)
    yield package


class LostError(Exception):
  """An agent is no more."""


class Cluster:
  """A Ray cluster that this process is a driver of.

  Attributes:
    address: 'host:port' of its head.
    dashboard: URL of Ray's dashboard; None: it is off.
  """

  def __init__(self, address: str, modules: Sequence[pathlib.Path] = ()):
    """Connects.

    Args:
      address: 'host:port' of Ray's head, from `admission.seek`.
      modules: the user's own, which are sent to each machine: files and folders
        of packages.

    Raises:
      ValueError: one line: it is not to be had.
    """
    self.address = address
    # Its advice for the future, of which none concerns who runs Slipway.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"ray\.")
    try:
      with _package() as package:
        connected = ray.init(
          address=self.address,
          log_to_driver=False,  # logs come with the agents' reports
          logging_level=logging.ERROR,
          runtime_env={
            "py_modules": [str(package), *map(str, modules)],
            "excludes": ["**/__pycache__"],
          },
        )
    except (ConnectionError, RuntimeError, exceptions.RayError) as error:
      said = " ".join(str(error).split())
      raise ValueError(
        f"--ray_address={self.address} can't be used ({said}): give the "
        "address that `ray start` has printed, on a machine of that cluster"
      ) from error
    dashboard = connected.dashboard_url
    self.dashboard = f"http://{dashboard}" if dashboard else None
    self._home = ray.get_runtime_context().get_node_id()

  def machines(self) -> list[placement.Machine]:
    """Those that are alive."""
    return [
      placement.Machine(
        node["NodeID"],
        node["NodeManagerAddress"],
        node["Resources"].get("CPU", 0.0),
        node["Resources"].get("GPU", 0.0),
        node["NodeID"] == self._home,
      )
      for node in ray.nodes()
      if node["Alive"]
    ]

  def start(
    self, machine: placement.Machine, task: agent.Task
  ) -> "RemoteAgent":
    """Makes an agent on a machine."""
    pinned = scheduling_strategies.NodeAffinitySchedulingStrategy(
      machine.id, soft=False
    )
    actor = (
      ray.remote(agent.Agent)
      .options(
        num_cpus=task.part.cpus,
        num_gpus=task.part.gpus,
        max_concurrency=2,  # a poll beside a start
        scheduling_strategy=pinned,
      )
      .remote(task)
    )
    return RemoteAgent(actor)

  def close(self) -> None:
    """Disconnects; what is left of agents ends."""
    ray.shutdown()


class RemoteAgent:
  """Calls of an agent, one at a time, that are not waited for."""

  def __init__(self, actor: typing.Any):
    """Takes a new actor."""
    self._actor = actor
    self._call: typing.Any = None

  def call(self, method: str, *args: typing.Any) -> None:
    """Calls a method; `answer` has what it returns."""
    assert self._call is None
    self._call = getattr(self._actor, method).remote(*args)

  def dismiss(self) -> None:
    """Calls `close`, whatever has not been answered."""
    self._call = self._actor.close.remote()

  @property
  def busy(self) -> bool:
    """Whether a call has not been answered."""
    return self._call is not None

  def answer(self) -> typing.Any:
    """What the last call returned.

    Raises:
      TimeoutError: nothing yet.
      LostError: the agent is no more.
      RuntimeError: the method failed.
    """
    call, self._call = self._call, None
    try:
      return ray.get(call, timeout=0)
    except exceptions.GetTimeoutError:
      self._call = call
      raise TimeoutError from None
    except exceptions.ActorUnavailableError:
      # It repeats until Ray knows: no crash.
      raise TimeoutError from None
    except exceptions.RayActorError as error:
      raise LostError(" ".join(str(error).split())) from None
    except exceptions.RayTaskError as error:
      raise RuntimeError(" ".join(str(error.cause).split())) from error

  def kill(self) -> None:
    """Ends it, wherever it is."""
    ray.kill(self._actor)


def wait(agents: Sequence[RemoteAgent], timeout_s: float) -> None:
  """Waits until one of them has answered, or for so long."""
  calls = [agent._call for agent in agents if agent.busy]
  if calls:
    ray.wait(calls, timeout=timeout_s)
