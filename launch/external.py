"""External processes: loops of their own that collect for a run.

A game, a robot or a service acts by a run's newest policy, and what it
experiences is learned from as what the run's own workers collect:

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

The process may come and go, or be killed. It is a worker whose environment is
stepped by another loop (`slipway.environments.external`), in a thread here.
"""

import atexit
import contextlib
import os
import threading
import time
import types
import typing

import launchpad as lp
import ml_collections

from slipway.environments import external, factory, user_code
from slipway.launch import run_config, running, site
from slipway.launch.display import status_text
from slipway.launch.nodes import addresses, worker_node
from slipway.launch.orchestration import control_service
from slipway.launch.rpc import client as rpc_client
from slipway.launch.runs import run_folder
from slipway.replay.transport import control_block

_PROXY_WITHIN_S = 15.0  # of a run that has just begun
_LOOK_S = 0.05
_CLOSES_WITHIN_S = 10.0


class RunEndedError(RuntimeError):
  """The run has ended, or does not reply: there is nothing to connect to."""


class Connection:
  """A connection to a run, made by `connect`; for one thread.

  Attributes:
    index: of this process among the external ones of the run, from 0.
  """

  def __init__(
    self,
    folder: run_folder.RunFolder,
    node: worker_node.WorkerNode,
    outside: worker_node.External,
    exchange: external.Exchange,
    control: control_service.ControlService,
  ):
    """Starts the worker's thread; `connect` is for everyone else."""
    self.index = outside.index
    self._name = str(folder.path)
    self._node, self._outside, self._exchange = node, outside, exchange
    self._control = control
    self._end: Exception | None = None
    self._is_closed = False
    exchange.set_should_stop(node.check_in_step)
    self._thread = threading.Thread(
      target=self._run, name="external process", daemon=True
    )
    self._thread.start()
    atexit.register(self.close)

  def act(self, observation: typing.Any) -> typing.Any:
    """Returns the action of the newest policy, which explores as a worker does.

    Waits while the run is paused, has published no variables yet, or can take
    no more items.

    Args:
      observation: as the environment's `observation_space` says.

    Returns:
      An action of the environment's `action_space`.

    Raises:
      ValueError: one line: the observation is of another shape or type, or
        `observe` was not called since the last action; nothing was done.
      RunEndedError: the run has ended.
      RuntimeError: the connection failed, by the error that caused it.
    """
    try:
      return self._exchange.act(observation)
    except external.Interrupted:
      raise self._explain_end("act") from self._end

  def observe(
    self,
    reward: float,
    terminated: bool,
    truncated: bool,
    observation: typing.Any,
  ) -> None:
    """Reports what followed the last action; does not wait.

    Args:
      reward: of the step.
      terminated: whether the episode has ended, so that nothing follows.
      truncated: whether it was cut off, so that more would have followed.
      observation: after the step; where the episode ends, its last one, and the
        next `act` begins another episode.

    Raises:
      ValueError: one line: a value can't be used, or `act` was not called;
        nothing was done.
      RunEndedError: the run has ended.
      RuntimeError: the connection failed, by the error that caused it.
    """
    try:
      self._exchange.observe(reward, terminated, truncated, observation)
    except external.Interrupted:
      raise self._explain_end("observe") from self._end

  def close(self) -> None:
    """Writes what is complete and disconnects; the run goes on."""
    self._is_closed = True
    atexit.unregister(self.close)
    self._outside.stop_event.set()
    self._thread.join(_CLOSES_WITHIN_S)

  def __enter__(self) -> "Connection":
    return self

  def __exit__(
    self,
    error_type: type[BaseException] | None,
    error: BaseException | None,
    traceback: types.TracebackType | None,
  ) -> None:
    self.close()

  def _run(self) -> None:
    try:
      self._node.run()
    except Exception as error:
      self._end = error
    finally:
      self._outside.handle.close()
      self._exchange.close()

  def _explain_end(self, method: str) -> Exception:
    if self._is_closed:
      return ValueError(
        f"{method} was called after close, so nothing was done: connect again"
      )
    if isinstance(self._end, user_code.UserCodeError):
      return RuntimeError(f"the connection failed: {self._end.line}")
    if self._end is not None:
      return RuntimeError(
        f"the connection to run {self._name!r} failed: "
        f"{user_code.describe(self._end)}"
      )
    because = "it does not reply any more"
    with contextlib.suppress(rpc_client.UnreachableError):
      because = status_text.reason(self._control.status().stopped_because)
    return RunEndedError(f"run {self._name!r} has ended: {because}")


def connect(run: str | os.PathLike[str]) -> Connection:
  """Connects this process to a run, to collect for it.

  The process steps one environment; it may connect several times for several.
  Its environment steps count as the run's. It explores as one more worker.

  Args:
    run: the run's folder, such as 'runs/x'. The run is on this machine, and of
      this user; the environment of its config has the spaces that observations
      and actions are of.

  Returns:
    The connection, to be closed; a context manager does so.

  Raises:
    ValueError: one line: there is no such run, or it takes no external
      processes.
    UserCodeError: the environment of its config can't be made.
    RunEndedError: the run has ended, or does not reply.
  """
  folder = run_folder.RunFolder.open(run)
  try:
    where = running.find(folder)
  except running.NotRunningError as error:
    raise RunEndedError(str(error)) from error
  config = run_config.read(run)
  _check(config, folder)
  control = rpc_client.connect(control_service.ControlService, where.address)
  try:
    because = control.status().stopped_because
  except rpc_client.UnreachableError as error:
    raise RunEndedError(
      f"run {str(folder.path)!r} does not reply: {error}"
    ) from error
  if because is not None:
    raise RunEndedError(
      f"run {str(folder.path)!r} is stopping: {status_text.reason(because)}"
    )
  environment, exchange = factory.make_external(config.environment)
  data = addresses.DataAddresses(
    tuple(
      lp.Address(f"replay{shard}")
      for shard in range(site.replay_servers(config))
    ),
    os.path.dirname(where.address),
  )
  index, handle = data.open_external_control_block(config.topology.workers)
  with contextlib.ExitStack() as failed:
    failed.callback(handle.close)
    _wait_for_proxy(handle, folder)
    worker = config.topology.workers + index
    config.topology.workers = worker + 1
    config.topology.environments_per_worker = 1
    outside = worker_node.External(
      index, handle, environment, threading.Event()
    )
    node = worker_node.WorkerNode(
      config, environment.spec, worker, data, control, outside
    )
    failed.pop_all()
  return Connection(folder, node, outside, exchange, control)


def _check(
  config: ml_collections.ConfigDict, folder: run_folder.RunFolder
) -> None:
  """Checks that a run takes what external processes collect."""
  name = f"run {str(folder.path)!r}"
  if "replay" not in config:
    raise ValueError(
      f"{name} learns from recorded data (config.agent={config.agent!r}), so "
      "nothing that is collected would be used: connect to another run"
    )
  if config.mode != "async":
    raise ValueError(
      f"{name} has config.mode={config.mode!r}, which counts the steps of its "
      "own workers, so it takes no external processes: use mode 'async'"
    )
  if not config.topology.proxy:
    raise ValueError(
      f"{name} has config.topology.proxy=False, and external processes write "
      "through a proxy: use True"
    )


def _wait_for_proxy(
  handle: control_block.WorkerHandle, folder: run_folder.RunFolder
) -> None:
  deadline_s = time.monotonic() + _PROXY_WITHIN_S
  while not handle.proxy_is_alive:
    if time.monotonic() > deadline_s:
      raise RunEndedError(
        f"run {str(folder.path)!r} has no proxy on this machine for "
        f"{_PROXY_WITHIN_S:.0f} s: it is being stopped, or, on a cluster, has "
        "no workers here (config.topology.home_workers)"
      )
    time.sleep(_LOOK_S)
