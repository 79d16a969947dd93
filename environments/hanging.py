"""Hanging environments: a thread that notices a step that doesn't return.

The watching thread looks at the stacks of the other threads a few times within
the time limit. So a step costs no more than without it, and the error names the
line of the environment's code that does not return. Code that keeps Python's
lock all the time can't be noticed in this way.
"""

import contextlib
import sys
import threading
import time
import types
import typing
from collections.abc import Iterator

from slipway.environments import asynchronous, checked, user_code, vector

_LOOKS = 10  # within the time limit
_SHORTEST_S, _LONGEST_S = 0.05, 1.0  # between two looks

_Owner = checked.CheckedEnvironment | vector.VectorEnvironment
_ONE = {
  checked.CheckedEnvironment.reset.__code__: "reset()",
  checked.CheckedEnvironment.step.__code__: "step()",
}
_BATCH = {
  vector.VectorEnvironment.reset.__code__: "reset()",
  vector.VectorEnvironment.step.__code__: "step()",
}


class _Call(typing.NamedTuple):
  """A reset or a step that has not returned.

  Attributes:
    frame: of the call: a later call has another one.
    since_s: monotonic seconds at which it was first seen.
  """

  frame: types.FrameType
  since_s: float


@contextlib.contextmanager
def watching(timeout_s: float) -> Iterator[None]:
  """Watches all environments of this process while the block runs.

  A call that takes longer is raised in the watching thread, as an
  `EnvironmentFailedError`, and nothing is watched afterwards:
  `threading.excepthook` decides what follows.

  Args:
    timeout_s: seconds that one reset or step of an environment may take; of
      environments that step as one batch, of the batch. 0: no limit.
  """
  if not timeout_s:
    yield
    return
  ended = threading.Event()
  threading.Thread(
    target=_watch,
    args=(timeout_s, ended),
    name="watch of environments",
    daemon=True,
  ).start()
  try:
    yield
  finally:
    ended.set()


def _watch(timeout_s: float, ended: threading.Event) -> None:
  period_s = min(max(timeout_s / _LOOKS, _SHORTEST_S), _LONGEST_S)
  known: dict[int, _Call] = {}  # by thread
  while not ended.wait(period_s):
    now_s, calls = time.monotonic(), {}
    for thread, frame in _find_calls():
      call = known.get(thread)
      if call is None or call.frame is not frame:
        call = _Call(frame, now_s)
      calls[thread] = call
      if now_s - call.since_s > timeout_s:
        raise _explain(thread, call, now_s - call.since_s, timeout_s)
    known = calls


def _find_calls() -> Iterator[tuple[int, types.FrameType]]:
  """Yields each thread that is in an environment's call, and its frame."""
  for thread, top in sys._current_frames().items():
    frame = _find(top, _ONE) or _find(top, _BATCH)
    if frame is not None:
      yield thread, frame


def _find(
  top: types.FrameType | None, codes: typing.Container[types.CodeType]
) -> types.FrameType | None:
  """Returns the innermost frame of one of the codes; None: there is none."""
  while top is not None and top.f_code not in codes:
    top = top.f_back
  return top


def _explain(
  thread: int, call: _Call, waited_s: float, timeout_s: float
) -> checked.EnvironmentFailedError:
  """Returns the error of a call that takes too long."""
  frame = call.frame
  owner: _Owner = frame.f_locals["self"]
  batch = _find(frame, _BATCH)
  environment = batch and batch.f_locals["self"]
  name = environment.name if environment is not None else "(unknown)"
  what = (
    f"{(_ONE | _BATCH)[frame.f_code]} has not returned for {waited_s:.1f} s, "
    f"longer than config.environment.step_timeout_s={timeout_s:g}"
  )
  index, seed, step, outermost = None, None, 0, frame
  if isinstance(owner, checked.CheckedEnvironment):
    index, seed, step = owner.index, owner.seed, owner.steps
    if isinstance(owner.env, asynchronous.InThread):
      thread, outermost = owner.env.thread_id or thread, None
  fault = checked.Fault(index, what)
  error = checked.EnvironmentFailedError(name, fault, seed, step)
  innermost = sys._current_frames().get(thread)
  error.traceback = user_code.format_stack(innermost, outermost)
  return error
