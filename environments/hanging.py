"""Hanging environments: detects resets and steps that do not return.

A background thread inspects the stacks of the other threads several times per
time limit. So the detection adds no cost to a step, and the error shows the
line of the environment's code that does not return. Code that never releases
Python's global interpreter lock can't be detected in this way.
"""

import contextlib
import sys
import threading
import time
import types
import typing
from collections.abc import Iterator

from slipway.environments import asynchronous, checked, user_code, vector

# Inspections of all stacks per time limit of a step.
_INSPECTIONS_PER_TIMEOUT = 10
# Bounds of the time between two inspections, in seconds.
_MIN_PERIOD_S, _MAX_PERIOD_S = 0.05, 1.0

# The classes whose resets and steps are inspected.
_Environment = checked.CheckedEnvironment | vector.VectorEnvironment
# Calls that are inspected, of a single environment and of a whole batch: names
# by compiled code.
_ENVIRONMENT_CALLS, _BATCH_CALLS = (
  {owner.reset.__code__: "reset()", owner.step.__code__: "step()"}
  for owner in (checked.CheckedEnvironment, vector.VectorEnvironment)
)


class _Call(typing.NamedTuple):
  """A reset or a step that has not returned."""

  frame: types.FrameType
  since_s: float


@contextlib.contextmanager
def detect_hanging(timeout_s: float) -> Iterator[None]:
  """Detects hanging environments of this process while a `with` block runs.

  For the first call that takes too long, a background thread raises an
  `EnvironmentFailedError` and ends. `threading.excepthook` handles the error.

  Args:
    timeout_s: seconds that one reset or step of an environment, or of a batch
      that gymnasium steps as one, may take; 0 for no limit.
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
  """Inspects all threads until a call takes too long or `ended` is set."""
  period_s = timeout_s / _INSPECTIONS_PER_TIMEOUT
  period_s = min(max(period_s, _MIN_PERIOD_S), _MAX_PERIOD_S)
  known: dict[int, _Call] = {}  # calls of the last inspection, by thread id
  while not ended.wait(period_s):
    now_s, calls = time.monotonic(), {}
    for thread, frame in _find_calls():
      call = known.get(thread)
      if call is None or call.frame is not frame:
        call = _Call(frame, now_s)
      calls[thread] = call
      if now_s - call.since_s > timeout_s:
        raise _make_error(thread, call, now_s - call.since_s, timeout_s)
    known = calls


def _find_calls() -> Iterator[tuple[int, types.FrameType]]:
  """Yields the unfinished calls: thread id and stack frame of the call."""
  for thread, top in sys._current_frames().items():
    frame = _find_frame(top, _ENVIRONMENT_CALLS) or _find_frame(
      top, _BATCH_CALLS
    )
    if frame is not None:
      yield thread, frame


def _find_frame(
  top: types.FrameType | None, codes: typing.Container[types.CodeType]
) -> types.FrameType | None:
  """Returns the innermost frame of a stack that runs one of some functions."""
  while top is not None and top.f_code not in codes:
    top = top.f_back
  return top


def _make_error(
  thread: int, call: _Call, waited_s: float, timeout_s: float
) -> checked.EnvironmentFailedError:
  """Makes the error for a call that takes too long."""
  frame = call.frame
  owner: _Environment = frame.f_locals["self"]
  batch_frame = _find_frame(frame, _BATCH_CALLS)
  batch = batch_frame and batch_frame.f_locals["self"]
  name = batch.name if batch is not None else "(unknown)"
  call_name = (_ENVIRONMENT_CALLS | _BATCH_CALLS)[frame.f_code]
  message = (
    f"{call_name} has not returned for {waited_s:.1f} s, "
    f"longer than config.environment.step_timeout_s={timeout_s:g}"
  )
  index, seed, step, outermost = None, None, 0, frame
  if isinstance(owner, checked.CheckedEnvironment):
    index, seed, step = owner.index, owner.seed, owner.steps
    if isinstance(owner.env, asynchronous.ThreadedEnvironment):
      thread, outermost = owner.env.thread_id or thread, None
  fault = checked.EnvironmentFault(index, message)
  error = checked.EnvironmentFailedError(name, fault, seed, step)
  innermost = sys._current_frames().get(thread)
  error.traceback = user_code.format_stack(innermost, outermost)
  return error
