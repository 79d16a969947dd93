"""Asynchronous environments: each of a batch steps in a thread of its own.

For environments that wait, as for a device, a server or C code that releases
Python's lock: the steps of a batch then take as long as the slowest of them,
not their sum. Results are those of the same environments one after the other.

gymnasium's AsyncVectorEnv has processes in place of threads, and so can't say
which environment hangs, nor be saved. A run has a process for each worker
already.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

_Call = Callable[[], Any]


class InThread(gymnasium.Wrapper):
  """Resets and steps an environment in one thread, always the same.

  A call that was started returns the result when it is made: in between, the
  calls of other environments can be started.
  """

  def __init__(self, env: gymnasium.Env):
    """Starts the thread, which ends with the process."""
    super().__init__(env)
    self._start_thread()

  @property
  def thread_id(self) -> int | None:
    """The thread's identifier, as in `sys._current_frames`."""
    return self._thread.ident

  def start_reset(self, seed: int | None) -> None:
    """Starts the reset that will be made next."""
    self._start(lambda: self.env.reset(seed=seed, options=None))

  def start_step(self, action: Any) -> None:
    """Starts the step that will be made next."""
    self._start(lambda: self.env.step(action))

  def reset(self, *, seed=None, options=None):
    """Returns the result of the reset that was started, or resets now."""
    if not self._is_started:
      self._start(lambda: self.env.reset(seed=seed, options=options))
    return self._take()

  def step(self, action):
    """Returns the result of the step that was started, or steps now."""
    if not self._is_started:
      self.start_step(action)
    return self._take()

  def __getstate__(self) -> dict[str, Any]:
    """Returns all but the thread, which a copy starts for itself."""
    parts = vars(self).items()
    return {
      k: v for k, v in parts if k not in ("_calls", "_results", "_thread")
    }

  def __setstate__(self, state: dict[str, Any]) -> None:
    """Continues in another thread."""
    vars(self).update(state)
    self._start_thread()

  def _start_thread(self) -> None:
    self._is_started = False
    self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
    self._results: queue.SimpleQueue[tuple[Any, BaseException | None]] = (
      queue.SimpleQueue()
    )
    self._thread = threading.Thread(
      target=_serve,
      args=(self._calls, self._results),
      name="environment",
      daemon=True,
    )
    self._thread.start()

  def _start(self, call: _Call) -> None:
    self._is_started = True
    self._calls.put(call)

  def _take(self) -> Any:
    result, error = self._results.get()
    self._is_started = False
    if error is not None:
      raise error
    return result


class Batch:
  """Starts the calls of all environments of a batch."""

  def __init__(self, envs: Sequence[gymnasium.Env], space: gymnasium.Space):
    """Takes environments that `checked.CheckedEnvironment` wraps.

    Args:
      envs: each wraps an `InThread`.
      space: of the actions of the batch.
    """
    self._envs = [env.env for env in envs]
    self._space = space

  def start_resets(self, seed: int | None) -> None:
    """Starts the resets of gymnasium's `reset(seed=seed)`."""
    for index, env in enumerate(self._envs):
      env.start_reset(None if seed is None else seed + index)

  def start_steps(self, actions: np.ndarray, done: np.ndarray) -> None:
    """Starts the steps of gymnasium's `step(actions)`.

    Args:
      actions: of the space [B, ...].
      done: bool, where an episode has ended, so that it resets itself.  # [B]
    """
    batched = gymnasium.vector.utils.iterate(self._space, actions)
    for env, action, is_done in zip(self._envs, batched, done, strict=True):
      if is_done:
        env.start_reset(None)
      else:
        env.start_step(action)


def make_batch(envs: gymnasium.vector.VectorEnv) -> Batch | None:
  """Returns what starts the calls of a batch; None: they are not in threads."""
  each = getattr(envs, "envs", ())
  if not each or not isinstance(getattr(each[0], "env", None), InThread):
    return None
  return Batch(each, envs.action_space)


def _serve(calls: queue.SimpleQueue, results: queue.SimpleQueue) -> None:
  """Makes calls, one after the other."""
  while True:
    call = calls.get()
    try:
      results.put((call(), None))
    except BaseException as error:  # raised where the result is taken
      results.put((None, error))
