"""Asynchronous environments: each environment of a batch has its own thread.

This suits environments that wait for a device, a server or C code that releases
Python's global interpreter lock. A step of the batch then takes as long as its
slowest environment, not as long as the sum. The results equal those of
sequential steps.

gymnasium's AsyncVectorEnv uses processes in place of threads, so it can neither
report which environment hangs nor be saved. A run already has one process per
worker.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any

import gymnasium

# A reset or a step with its arguments; the function returns the call's result.
_Call = Callable[[], Any]


class ThreadedEnvironment(gymnasium.Wrapper):
  """Runs all resets and steps of an environment in one background thread.

  `start_reset` or `start_step` starts a call without waiting; the next `reset`
  or `step` waits for the call and returns its result. In between, the calls of
  other environments can start.
  """

  def __init__(self, env: gymnasium.Env):
    super().__init__(env)
    self._start_thread()

  @property
  def thread_id(self) -> int | None:
    """Identifier of the thread, as in `sys._current_frames`."""
    return self._thread.ident

  def start_reset(self, seed: int | None) -> None:
    self._start_call(lambda: self.env.reset(seed=seed, options=None))

  def start_step(self, action: Any) -> None:
    self._start_call(lambda: self.env.step(action))

  def reset(self, *, seed=None, options=None):
    """Returns the result of the started reset; if none was started, resets."""
    if not self._is_started:
      self.start_reset(seed)
    return self._wait_for_result()

  def step(self, action):
    """Returns the result of the started step; if none was started, steps."""
    if not self._is_started:
      self.start_step(action)
    return self._wait_for_result()

  def close(self):
    """Ends the thread after its current call, and closes the environment."""
    self._calls.put(None)
    return super().close()

  def __getstate__(self) -> dict[str, Any]:
    """Returns all attributes except the thread and its queues, for pickle."""
    return {
      name: value
      for name, value in vars(self).items()
      if name not in ("_calls", "_results", "_thread")
    }

  def __setstate__(self, state: dict[str, Any]) -> None:
    """Restores pickled attributes, and starts a new thread."""
    vars(self).update(state)
    self._start_thread()

  def _start_thread(self) -> None:
    """Starts the thread and the queues of its calls and results."""
    self._is_started = False
    self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
    self._results: queue.SimpleQueue[tuple[Any, BaseException | None]] = (
      queue.SimpleQueue()
    )
    self._thread = threading.Thread(
      target=_run_calls,
      args=(self._calls, self._results),
      name="environment",
      daemon=True,
    )
    self._thread.start()

  def _start_call(self, call: _Call) -> None:
    """Puts a call in the thread's queue, without waiting for its result."""
    self._is_started = True
    self._calls.put(call)

  def _wait_for_result(self) -> Any:
    """Waits for the started call; returns its result, or raises its error."""
    result, error = self._results.get()
    self._is_started = False
    if error is not None:
      raise error
    return result


def find_threaded(
  envs: gymnasium.vector.VectorEnv,
) -> list[ThreadedEnvironment]:
  """Returns the environments of a batch if they are threaded, else none.

  The batch's own environments are `checked.CheckedEnvironment`s around them.
  """
  inner = [getattr(env, "env", None) for env in getattr(envs, "envs", ())]
  return [env for env in inner if isinstance(env, ThreadedEnvironment)]


def _run_calls(calls: queue.SimpleQueue, results: queue.SimpleQueue) -> None:
  """Runs an environment's calls in order; the thread's main function."""
  while (call := calls.get()) is not None:
    try:
      results.put((call(), None))
    except BaseException as error:  # raised again in the caller's thread
      results.put((None, error))
    del call  # it holds the environment until the next call
