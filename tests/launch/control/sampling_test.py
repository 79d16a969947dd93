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
  sampling.start(seconds, per_s, delivered.put, lambda: False)
  during()
  found = delivered.get(timeout=60)
  end.set()
  for thread in threads:
    thread.join()
  assert delivered.empty()
  return found


def test_threads_are_where_they_spend_their_time():
  found = profile(1.0, 100)
  assert found.duration_s >= 1.0
  assert found.cpu_s > 0.0
  assert next(iter(found.threads)) == threading.main_thread().name
  busy, asleep = found.threads["busy"], found.threads["asleep"]
  assert busy.cpu_s > asleep.cpu_s
  for thread, name in ((busy, "compute"), (asleep, "sleep")):
    assert len(thread.stacks) == len(found.times_s)
    shown = [x for x in thread.stacks if x != sampling.NO_STACK]
    frames = [{found.frames[i] for i in found.stacks[x]} for x in shown]
    assert all(f"{__name__}:{name}" in each for each in frames)


def test_a_thread_that_begins_and_ends_has_its_samples_only():
  def during():
    time.sleep(0.3)
    thread = threading.Thread(target=time.sleep, args=(0.3,), name="short")
    thread.start()
    thread.join()

  samples = profile(1.0, 100, during).threads["short"].stacks
  assert samples[0] == samples[-1] == sampling.NO_STACK
  assert {*samples} > {sampling.NO_STACK}


def test_a_process_is_sampled_once_at_a_time():
  late = []

  def start():
    sampling.start(0.1, 20, late.append, lambda: False)

  profile(0.5, 20, start)
  assert not late


def test_a_profile_ends_with_its_run():
  delivered, over = queue.Queue(), threading.Event()
  sampling.start(600.0, 20, delivered.put, over.is_set)
  over.set()
  assert delivered.get(timeout=60).duration_s < 600.0
