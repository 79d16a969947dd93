"""Asynchronous environments: each environment of a batch has its own thread.

Useful for environments that wait for a device, a server or C code that releases
Python's lock: a step of the batch then takes as long as its slowest step, not
as their sum. The results equal those of sequential steps.

gymnasium's AsyncVectorEnv uses processes in place of threads, so it can neither
report which environment hangs nor be saved. A run already has one process per
worker.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

_Call = Callable[[], Any]


class ThreadedEnvironment(gymnasium.Wrapper):
  """Runs all resets and steps of an environment in one background thread.

  `start_reset` or `start_step` starts a call; the next `reset` or `step`
  returns its result. In between, the calls of other environments can start.
  """

  def __init__(self, env: gymnasium.Env):
    """Starts the thread, which ends with the process."""
    super().__init__(env)
    self._start_thread()

  @property
  def thread_id(self) -> int | None:
    """Identifier of the thread, as in `sys._current_frames`."""
    return self._thread.ident

  def start_reset(self, seed: int | None) -> None:
    """Starts a reset, whose result the next `reset` returns."""
    self._start_call(lambda: self.env.reset(seed=seed, options=None))

  def start_step(self, action: Any) -> None:
    """Starts a step, whose result the next `step` returns."""
    self._start_call(lambda: self.env.step(action))

  def reset(self, *, seed=None, options=None):
    """Returns the result of the started reset, or else resets now."""
    if not self._is_started:
      self._start_call(lambda: self.env.reset(seed=seed, options=options))
    return self._wait_for_result()

  def step(self, action):
    """Returns the result of the started step, or else steps now."""
    if not self._is_started:
      self.start_step(action)
    return self._wait_for_result()

  def __getstate__(self) -> dict[str, Any]:
    """Returns the attributes without the thread; a copy starts its own."""
    return {
      name: value
      for name, value in vars(self).items()
      if name not in ("_calls", "_results", "_thread")
    }

  def __setstate__(self, state: dict[str, Any]) -> None:
    """Restores the attributes, and starts a new thread."""
    vars(self).update(state)
    self._start_thread()

  def _start_thread(self) -> None:
    self._is_started = False
    self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
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
    self._is_started = True
    self._calls.put(call)

  def _wait_for_result(self) -> Any:
    """Waits for the started call; returns its result or raises its error."""
    result, error = self._results.get()
    self._is_started = False
    if error is not None:
      raise error
    return result


class CallStarter:
  """Starts the calls of all environments of a batch in their threads."""

  def __init__(self, envs: Sequence[gymnasium.Env], space: gymnasium.Space):
    """Keeps the threaded environments that `envs` wrap.

    Args:
      envs: `checked.CheckedEnvironment`s, each around a `ThreadedEnvironment`.
      space: action space of the batch.
    """
    self._envs = [env.env for env in envs]
    self._space = space

  def start_resets(self, seed: int | None) -> None:
    """Starts the resets that gymnasium's `reset(seed=seed)` makes."""
    for index, env in enumerate(self._envs):
      env.start_reset(None if seed is None else seed + index)

  def start_steps(self, actions: np.ndarray, done: np.ndarray) -> None:
    """Starts the steps, or autoresets, that gymnasium's `step(actions)` makes.

    Args:
      actions: actions of the batch's action space, [B, ...].
      done: bool [B], whether each environment's episode has ended.
    """
    batched = gymnasium.vector.utils.iterate(self._space, actions)
    for env, action, is_done in zip(self._envs, batched, done, strict=True):
      if is_done:
        env.start_reset(None)
      else:
        env.start_step(action)


def make_call_starter(
  envs: gymnasium.vector.VectorEnv,
) -> CallStarter | None:
  """Makes the starter of a batch's calls; None if they have no threads."""
  checked_envs = getattr(envs, "envs", ())
  inner = getattr(checked_envs[0], "env", None) if checked_envs else None
  if not isinstance(inner, ThreadedEnvironment):
    return None
  return CallStarter(checked_envs, envs.action_space)


def _run_calls(calls: queue.SimpleQueue, results: queue.SimpleQueue) -> None:
  """Runs an environment's calls, one after another, in its thread."""
  while True:
    call = calls.get()
    try:
      results.put((call(), None))
    except BaseException as error:  # raised again in the caller's thread
      results.put((None, error))
