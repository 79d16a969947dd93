"""Sampling: takes the stacks of a process's own threads at a fixed rate.

A thread of the process reads the stacks, so it needs no privilege and works in
any container. It waits for Python's lock like any thread: a sample that is due
during a call which holds the lock is taken right after it, and still shows it.
"""

import sys
import threading
import time
import types
from collections.abc import Callable

import msgspec

# Seconds after which a busy thread must release Python's lock during a profile.
# With Python's 5 ms, samples would gather in calls that release it themselves,
# such as reads of files.
_SWITCH_S = 1e-5
# Samples after which a profile ends, also where the launcher hangs.
_MAX_SAMPLES = 100_000
# Held while this process is sampled: several nodes may be its threads.
_is_sampled = threading.Lock()


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Samples of the stacks of all Python threads of one process.

  Attributes:
    cpu_cores: processor seconds per second of the process, those of C++ threads
      included, and those of the sampling left out.
    threads: names of the threads.
    stacks: functions of each stack, the outermost first, such as
      'slipway.launch.nodes.worker:Worker.step'.
    samples: unix seconds of each sample, and the index of each thread's stack,
      by the index of the thread.
  """

  cpu_cores: float
  threads: list[str]
  stacks: list[tuple[str, ...]]
  samples: list[tuple[float, dict[int, int]]]


def start(
  read_rate: Callable[[], float], deliver: Callable[[Profile], object]
) -> None:
  """Samples this process in a new thread, unless it is being sampled already.

  Args:
    read_rate: function that returns the current samples per second; 0 ends the
      profile.
    deliver: function that is called with the profile, in that thread.
  """
  if _is_sampled.acquire(blocking=False):
    threading.Thread(
      target=_sample, args=(read_rate, deliver), name="profile", daemon=True
    ).start()


def _sample(
  read_rate: Callable[[], float], deliver: Callable[[Profile], object]
) -> None:
  """Samples all threads but this one, as the function of this one."""
  names: dict[int | None, str] = {}  # of threads, by identifier
  # Threads and stacks are numbered in the order in which they are first seen.
  threads: dict[int, int] = {}
  stacks: dict[tuple[str, ...], int] = {}
  samples: list[tuple[float, dict[int, int]]] = []
  began_s, cpu_s, own = time.time(), time.process_time(), threading.get_ident()
  switch_s = sys.getswitchinterval()
  sys.setswitchinterval(_SWITCH_S)
  try:
    while (per_s := read_rate()) > 0.0 and len(samples) < _MAX_SAMPLES:
      now_s, sample = time.time(), {}
      for ident, frame in sys._current_frames().items():
        if ident != own:
          thread = threads.setdefault(ident, len(threads))
          sample[thread] = stacks.setdefault(_read_stack(frame), len(stacks))
      samples.append((now_s, sample))
      names.update((x.ident, x.name) for x in threading.enumerate())
      time.sleep(max(0.0, now_s + 1.0 / per_s - time.time()))
  finally:
    sys.setswitchinterval(switch_s)
    _is_sampled.release()
  if samples:
    cpu_s = time.process_time() - time.thread_time() - cpu_s
    cpu_cores = cpu_s / (time.time() - began_s)
    named = [names.get(ident, "C++") for ident in threads]
    deliver(Profile(cpu_cores, named, [*stacks], samples))


def _read_stack(frame: types.FrameType | None) -> tuple[str, ...]:
  """Returns the functions of a stack, the outermost first."""
  found = []
  while frame is not None:
    module, code = frame.f_globals.get("__name__"), frame.f_code
    found.append(f"{module}:{code.co_qualname}")
    frame = frame.f_back
  return tuple(reversed(found))
