"""Tests of the samples that a process takes of its own threads."""

import queue
import threading
import time

from slipway.launch.control import sampling


def compute(end):
  while not end.is_set():
    sum(range(1_000))


def sleep(end):
  end.wait()


def profile(seconds, per_s, during=lambda: None):
  """Returns this process's profile, with a busy and a sleeping thread."""
  end, delivered = threading.Event(), queue.Queue()
  threads = [
    threading.Thread(target=compute, args=(end,), name="busy"),
    threading.Thread(target=sleep, args=(end,), name="asleep"),
  ]
  for thread in threads:
    thread.start()
  end_s = time.monotonic() + seconds
  sampling.start(
    lambda: per_s if time.monotonic() < end_s else 0.0, delivered.put
  )
  during()
  found = delivered.get(timeout=60)
  end.set()
  for thread in threads:
    thread.join()
  assert delivered.empty()
  return found


def read_stacks(found, name):
  """Returns the stack of a thread in each sample, or None without it."""
  thread = found.threads.index(name)
  return [
    found.stacks[sample[thread]] if thread in sample else None
    for _, sample in found.samples
  ]


def test_threads_are_where_they_spend_their_time():
  found = profile(1.0, 100)
  times_s = [time_s for time_s, _ in found.samples]
  assert times_s == sorted(times_s)
  assert 0.5 < times_s[-1] - times_s[0] < 2.0
  assert len(times_s) <= 101
  assert found.cpu_cores > 0.0
  assert threading.main_thread().name in found.threads
  for name, function in (("busy", "compute"), ("asleep", "sleep")):
    stacks = read_stacks(found, name)
    assert sum(stack is not None for stack in stacks) >= len(stacks) - 2
    shown = [stack for stack in stacks if stack is not None]
    # A thread that has just begun is not in its function yet.
    assert all(f"{__name__}:{function}" in stack for stack in shown[1:])


def test_a_thread_that_begins_and_ends_has_its_samples_only():
  def during():
    time.sleep(0.3)
    thread = threading.Thread(target=time.sleep, args=(0.3,), name="short")
    thread.start()
    thread.join()

  stacks = read_stacks(profile(1.0, 100, during), "short")
  assert stacks[0] is stacks[-1] is None
  assert any(stacks)


def test_a_process_is_sampled_once_at_a_time():
  late = []
  profile(0.5, 20, lambda: sampling.start(lambda: 20, late.append))
  assert not late


def test_without_a_rate_there_is_no_profile():
  delivered = queue.Queue()
  sampling.start(lambda: 0.0, delivered.put)
  profile(0.2, 20)
  assert delivered.empty()
