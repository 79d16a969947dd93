"""Hanging environments: detects resets and steps that do not return.

A background thread inspects the stacks of the other threads several times per
time limit. So it adds no cost to a step, and the error shows the line of the
environment's code that does not return. Code that never releases Python's lock
can't be detected in this way.
"""

import contextlib
import sys
import threading
import time
import types
import typing
from collections.abc import Iterator

from slipway.environments import asynchronous, checked, user_code, vector

_INSPECTIONS = 10  # within the time limit
_SHORTEST_S, _LONGEST_S = 0.05, 1.0  # between two inspections

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
    frame: stack frame of the call, by which later calls are told from it.
    since_s: monotonic seconds at which the call was first seen.
  """

  frame: types.FrameType
  since_s: float


@contextlib.contextmanager
def detect_hanging(timeout_s: float) -> Iterator[None]:
  """Detects hanging environments of this process while the block runs.

  For the first call that takes too long, the background thread raises an
  `EnvironmentFailedError` and ends; `threading.excepthook` handles the error.

  Args:
    timeout_s: seconds that one reset or step of an environment, or of a batch
      that gymnasium steps as one, may take; 0: no limit.
  """
  if not timeout_s:
    yield
    return
  ended = threading.Event()
  threading.Thread(
    target=_watch,
    args=(timeout_s, ended),
    name="hanging environments",
    daemon=True,
  ).start()
  try:
    yield
  finally:
    ended.set()


def _watch(timeout_s: float, ended: threading.Event) -> None:
  period_s = min(max(timeout_s / _INSPECTIONS, _SHORTEST_S), _LONGEST_S)
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
  """Yields the id and frame of each thread that is in an environment's call."""
  for thread, top in sys._current_frames().items():
    frame = _find(top, _ONE) or _find(top, _BATCH)
    if frame is not None:
      yield thread, frame


def _find(
  top: types.FrameType | None, codes: typing.Container[types.CodeType]
) -> types.FrameType | None:
  """Returns the innermost frame that runs one of `codes`; None: none."""
  while top is not None and top.f_code not in codes:
    top = top.f_back
  return top


def _explain(
  thread: int, call: _Call, waited_s: float, timeout_s: float
) -> checked.EnvironmentFailedError:
  """Makes the error of a call that takes too long."""
  frame = call.frame
  owner: _Owner = frame.f_locals["self"]
  batch = _find(frame, _BATCH)
  environment = batch and batch.f_locals["self"]
  name = environment.name if environment is not None else "(unknown)"
  message = (
    f"{(_ONE | _BATCH)[frame.f_code]} has not returned for {waited_s:.1f} s, "
    f"longer than config.environment.step_timeout_s={timeout_s:g}"
  )
  index, seed, step, outermost = None, None, 0, frame
  if isinstance(owner, checked.CheckedEnvironment):
    index, seed, step = owner.index, owner.seed, owner.steps
    if isinstance(owner.env, asynchronous.ThreadedEnvironment):
      thread, outermost = owner.env.thread_id or thread, None
  fault = checked.Fault(index, message)
  error = checked.EnvironmentFailedError(name, fault, seed, step)
  innermost = sys._current_frames().get(thread)
  error.traceback = user_code.format_stack(innermost, outermost)
  return error
