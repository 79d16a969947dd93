"""External processes: programs with their own loop that collect for a run.

A game, a robot or a service acts by a run's newest policy, and the run learns
from its steps as from those of its own workers:

```python
with slipway.connect("runs/x") as run:
  observation = robot.reset()
  while True:
    action = run.act(observation)
    observation, reward, terminated, truncated = robot.move(action)
    run.observe(reward, terminated, truncated, observation)
    if terminated or truncated:
      observation = robot.reset()
```

The process may connect and disconnect at any time, or be killed. The connection
is a worker in a thread, whose environment is stepped by the process's own loop
(`slipway.environments.external`).
"""

import atexit
import contextlib
import os
import threading
import time
import types
import typing

import ml_collections

from slipway.agents import core
from slipway.environments import external, factory, user_code
from slipway.launch.api import running
from slipway.launch.checks import run_config
from slipway.launch.control import calls, control_service
from slipway.launch.display import rows
from slipway.launch.launchers import host_plan
from slipway.launch.nodes import addresses, worker_node
from slipway.launch.runs import run_folder
from slipway.replay.transport import control_block

_PROXY_TIMEOUT_S = 15.0  # seconds to wait until the run's proxy is up
_POLL_S = 0.05  # seconds between two checks whether the proxy is up
_CLOSE_TIMEOUT_S = 10.0  # seconds to wait until the worker's thread has ended


class RunEndedError(RuntimeError):
  """Raised if the run of a connection has ended or does not reply."""


class Connection:
  """A connection by which a process collects environment steps for a run.

  `connect` makes it. It may be used by one thread only.

  Attributes:
    index: index of this connection among the run's open connections, from 0;
      the index of a closed connection is used again.
  """

  def __init__(
    self,
    folder: run_folder.RunFolder,
    node: worker_node.WorkerNode,
    external_parts: worker_node.ExternalParts,
    exchange: external.Exchange,
    control: control_service.ControlService,
  ):
    """Starts the worker's thread; to be called by `connect` only."""
    self.index = external_parts.index
    self._name = str(folder.path)
    self._node, self._exchange = node, exchange
    self._external_parts = external_parts
    self._control = control
    self._error: Exception | None = None  # that ended the worker
    self._is_closed = False
    exchange.set_should_stop(node.check_in_step)
    self._thread = threading.Thread(
      target=self._run, name="external process", daemon=True
    )
    self._thread.start()
    atexit.register(self.close)

  def act(
    self, observation: typing.Any, action_mask: typing.Any = None
  ) -> typing.Any:
    """Returns an action of the newest policy, with exploration as a worker's.

    Blocks while the run is paused, has published no variables yet, or can take
    no more items.

    Args:
      observation: an element of the environment's `observation_space`.
      action_mask: [M], ones for the legal ones of M actions, if
        `config.environment.action_mask` is True.

    Returns:
      An action of the environment's `action_space`.

    Raises:
      ValueError: the observation is of another shape or type, or
        `observe` was not called since the last action; nothing was done.
      RunEndedError: the run has ended.
      RuntimeError: the connection failed; the cause is chained.
    """
    try:
      return self._exchange.act(observation, action_mask)
    except external.Interrupted:
      raise self._explain_end("act") from self._error

  def observe(
    self,
    reward: float,
    terminated: bool,
    truncated: bool,
    observation: typing.Any,
    action_mask: typing.Any = None,
  ) -> None:
    """Reports the outcome of the last action; does not block.

    Args:
      reward: reward of the step.
      terminated: whether the episode has ended by the environment's rules.
      truncated: whether the episode was cut off, as by a time limit.
      observation: observation after the step. If it ends the episode, the next
        `act` begins another one.
      action_mask: mask of `observation`, as for `act`; required if the episode
        is truncated, since the last observation then has a value.

    Raises:
      ValueError: a value can't be used, or `act` was not called;
        nothing was done.
      RunEndedError: the run has ended.
      RuntimeError: the connection failed; the cause is chained.
    """
    try:
      self._exchange.observe(
        reward, terminated, truncated, observation, action_mask
      )
    except external.Interrupted:
      raise self._explain_end("observe") from self._error

  def close(self) -> None:
    """Delivers all complete items and disconnects; the run continues."""
    self._is_closed = True
    atexit.unregister(self.close)
    self._external_parts.stop_event.set()
    self._thread.join(_CLOSE_TIMEOUT_S)

  def __enter__(self) -> "Connection":
    """Returns this connection."""
    return self

  def __exit__(
    self,
    error_type: type[BaseException] | None,
    error: BaseException | None,
    traceback: types.TracebackType | None,
  ) -> None:
    """Closes the connection; the arguments are ignored."""
    self.close()

  def _run(self) -> None:
    """Runs the worker until it stops or fails; the function of the thread."""
    try:
      self._node.run()
    except Exception as error:
      self._error = error
    finally:
      self._external_parts.handle.close()
      self._exchange.close()

  def _explain_end(self, method: str) -> Exception:
    """Returns the error that explains why the connection has ended."""
    if self._is_closed:
      return ValueError(
        f"{method} was called after close, so nothing was done: connect again"
      )
    if isinstance(self._error, user_code.UserCodeError):
      return RuntimeError(f"the connection failed: {self._error.line}")
    if self._error is not None:
      return RuntimeError(
        f"the connection to run {self._name!r} failed: "
        f"{user_code.describe(self._error)}"
      )
    because = "it does not reply any more"
    with contextlib.suppress(calls.UnreachableError):
      because = rows.describe_reason(self._control.status().stopped_because)
    return RunEndedError(f"run {self._name!r} has ended: {because}")


def connect(run: str | os.PathLike[str]) -> Connection:
  """Connects this process to a run, to collect environment steps for it.

  A connection is for one environment; a process may have several connections.
  The steps of a connection count as the run's, and it explores as one more
  worker.

  Args:
    run: the run's folder, such as 'runs/x'. The run must be on this machine and
      belong to this user; the environment of its config defines the spaces of
      observations and actions.

  Returns:
    The connection, which is a context manager and must be closed.

  Raises:
    ValueError: there is no such run, or it accepts no external
      processes.
    UserCodeError: the environment of the run's config can't be made.
    RunEndedError: the run has ended, or does not reply.
  """
  folder = run_folder.RunFolder.open(run)
  try:
    address = running.find(folder)
    config = run_config.read(run)
    _check_accepts_external(config, folder)
    with running.connect(folder) as control:
      because = control.status().stopped_because
  except running.RunUnavailableError as error:
    raise RunEndedError(str(error)) from error
  if because is not None:
    reason = rows.describe_reason(because)
    raise RunEndedError(f"run {str(folder.path)!r} is stopping: {reason}")
  environment, exchange = factory.make_external(config.environment)
  data = addresses.DataAddresses(
    tuple(
      addresses.Server(f"replay{shard}")
      for shard in range(host_plan.count_replay_servers(config))
    ),
    os.path.dirname(address.address),
  )
  index, handle = data.open_external_control_block(config.topology.workers)
  with contextlib.ExitStack() as failed:
    failed.callback(handle.close)
    _wait_for_proxy(handle, folder)
    worker = config.topology.workers + index
    config.topology.environments_per_worker = 1
    external_parts = worker_node.ExternalParts(
      index, handle, environment, threading.Event()
    )
    node = worker_node.WorkerNode(
      config, environment.spec, worker, data, control, external_parts
    )
    failed.pop_all()
  return Connection(folder, node, external_parts, exchange, control)


def _check_accepts_external(
  config: ml_collections.ConfigDict, folder: run_folder.RunFolder
) -> None:
  """Raises ValueError if a run's config allows no external processes."""
  name = f"run {str(folder.path)!r}"
  if "replay" not in config or core.is_recorded(config):
    raise ValueError(
      f"{name} learns from recorded data (config.agent={config.agent!r}), so "
      "nothing that is collected would be used: connect to another run"
    )
  if config.mode != "async":
    raise ValueError(
      f"{name} has config.mode={config.mode!r}, which counts the steps of its "
      "own workers, so it accepts no external processes: use mode 'async'"
    )
  if not config.topology.proxy:
    raise ValueError(
      f"{name} has config.topology.proxy=False, and external processes write "
      "through a proxy: use True"
    )


def _wait_for_proxy(
  handle: control_block.WorkerHandle, folder: run_folder.RunFolder
) -> None:
  """Waits until the run's proxy on this machine is up."""
  deadline_s = time.monotonic() + _PROXY_TIMEOUT_S
  while not handle.proxy_is_alive:
    if time.monotonic() > deadline_s:
      raise RunEndedError(
        f"run {str(folder.path)!r} has no proxy on this machine for "
        f"{_PROXY_TIMEOUT_S:.0f} s: it is being stopped, or, on a cluster, has "
        "no workers here (config.topology.home_workers)"
      )
    time.sleep(_POLL_S)
