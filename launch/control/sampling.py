"""Sampling: takes the stacks of a process's own threads at a fixed rate.

A thread of the process reads the stacks, so it needs no privilege and works in
any container. It waits for Python's lock like any thread: a sample that is due
during a call which holds the lock is taken right after it, and still shows it.
"""

import os
import sys
import threading
import time
import types
from collections.abc import Callable

import msgspec
import psutil

# Index of a stack in a sample that was taken while the thread did not exist.
NO_STACK = -1
# Number of innermost frames that a stack has at most.
_MAX_DEPTH = 64
# Seconds after which a busy thread must release Python's lock during a profile.
# With Python's 5 ms, samples would gather in calls that release it themselves,
# such as reads of files.
_SWITCH_S = 1e-5
# Module and code of each function, by the identity of the code: its hash is
# computed of all its content at each use.
_Frames = dict[int, tuple[str, types.CodeType]]
# Held while this process is sampled: several nodes may be its threads.
_is_sampled = threading.Lock()


class ThreadProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The samples of one thread.

  Attributes:
    cpu_s: processor seconds of the thread during the profile.
    stacks: index in `Profile.stacks` per sample, or `NO_STACK`.
  """

  cpu_s: float
  stacks: list[int]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Samples of the stacks of all Python threads of one process.

  Attributes:
    started_at_s: unix seconds of the beginning.
    duration_s: seconds from there to the end.
    cpu_s: processor seconds of the process, those of C++ threads included, and
      those of the sampling itself left out.
    times_s: seconds from the beginning to each sample.
    frames: functions, such as 'slipway.launch.nodes.worker:Worker.step'.
    stacks: stacks as indices in `frames`, the outermost first.
    threads: samples of each thread, by its name; the main thread is first.
  """

  started_at_s: float
  duration_s: float
  cpu_s: float
  times_s: list[float]
  frames: list[str]
  stacks: list[list[int]]
  threads: dict[str, ThreadProfile]


def start(
  seconds: float,
  per_s: int,
  deliver: Callable[[Profile], object],
  is_over: Callable[[], bool],
) -> None:
  """Samples this process in a new thread, unless it is being sampled already.

  Args:
    seconds: duration of the profile.
    per_s: samples per second.
    deliver: function that is called with the result, in that thread.
    is_over: function whether the profile ends early, as the run has ended.
  """
  if not _is_sampled.acquire(blocking=False):
    return

  def run() -> None:
    try:
      profile = _sample(seconds, 1.0 / per_s, is_over)
    finally:
      _is_sampled.release()
    deliver(profile)

  threading.Thread(target=run, name="profile", daemon=True).start()


def _sample(
  seconds: float, period_s: float, is_over: Callable[[], bool]
) -> Profile:
  """Returns the samples of all threads but this one."""
  frames: _Frames = {}
  stacks: dict[tuple[int, ...], int] = {}  # numbered by their first use
  samples: dict[int, list[int]] = {}  # by the thread's identifier
  names: dict[int | None, threading.Thread] = {}
  own, times_s = threading.get_ident(), []
  started_at_s, began_s = time.time(), time.monotonic()
  before, cpu_before_s = _read_cpu_s(), time.process_time()
  switch_s = sys.getswitchinterval()
  sys.setswitchinterval(_SWITCH_S)
  try:
    due_s = 0.0
    while (now_s := time.monotonic() - began_s) < seconds and not is_over():
      for ident, frame in sys._current_frames().items():
        if ident != own:
          stack = _read_stack(frame, frames)
          found = samples.setdefault(ident, [])
          found += [NO_STACK] * (len(times_s) - len(found))
          found.append(stacks.setdefault(stack, len(stacks)))
      times_s.append(now_s)
      names.update({thread.ident: thread for thread in threading.enumerate()})
      due_s = max(due_s + period_s, now_s)
      time.sleep(max(0.0, due_s - (time.monotonic() - began_s)))
  finally:
    sys.setswitchinterval(switch_s)
  after = _read_cpu_s()
  threads = {}
  for ident, found in samples.items():
    found += [NO_STACK] * (len(times_s) - len(found))
    thread = names.get(ident)
    name = thread.name if thread else "C++"
    native = (thread and thread.native_id) or 0
    if thread is threading.main_thread():
      native = os.getpid()  # Python's own number is that before a fork
    name = f"{name} {native}" if name in threads else name
    cpu_s = after.get(native, 0.0) - before.get(native, 0.0)
    threads[name] = ThreadProfile(max(0.0, cpu_s), found)
  numbers = {code: number for number, code in enumerate(frames)}
  main = threading.main_thread().name
  order = sorted(threads, key=lambda name: name != main)
  return Profile(
    started_at_s,
    now_s,
    time.process_time() - cpu_before_s - time.thread_time(),
    times_s,
    [f"{module}:{code.co_qualname}" for module, code in frames.values()],
    [[numbers[code] for code in stack] for stack in stacks],
    {name: threads[name] for name in order},
  )


def _read_cpu_s() -> dict[int, float]:
  """Returns the processor seconds of each thread so far, by its native id."""
  threads = psutil.Process().threads()
  return {x.id: x.user_time + x.system_time for x in threads}


def _read_stack(
  frame: types.FrameType | None, frames: _Frames
) -> tuple[int, ...]:
  """Returns the identities of a stack's codes, the outermost first."""
  found = []
  while frame is not None and len(found) < _MAX_DEPTH:
    code = frame.f_code
    if id(code) not in frames:
      frames[id(code)] = str(frame.f_globals.get("__name__")), code
    found.append(id(code))
    frame = frame.f_back
  return tuple(reversed(found))
