"""Tests of the recorder: its parts after kills, on full disks, together."""

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from slipway.environments import factory, recordings, vector
from slipway.environments import recorder as recorder_lib
from tests.environments import given
from tests.launch import small_disk

CONFIG = given.config_of("CartPole-v1")


class Counted:
  """Two environments whose steps are numbered, with episodes of any length.

  Observation, action and reward of a step are the same number, so a read
  episode shows which steps it has.
  """

  def __init__(self):
    self.environment = factory.make(CONFIG, 2, seed=0)
    self.steps = 0

  def reset(self):
    return self._make([False, False])

  def step(self, ended, truncated=False):
    """Returns actions and a step, in which some episodes end."""
    self.steps += 1
    actions = np.full(2, self.steps % 2, np.int32)
    return actions, self._make(ended, truncated)

  def _make(self, ended, truncated=False):
    observation = np.repeat([[self.steps], [-self.steps]], 4, axis=1)
    reward = np.full(2, self.steps, np.float32)
    flags = np.array(ended)
    return vector.StepBatch(
      observation.astype(np.float32),
      reward,
      flags & (not truncated),
      flags & truncated,
      np.zeros(2, bool),
      reward.astype(np.float64),
    )


def describe(episodes):
  """Returns first and last observation, first reward and flags of each."""
  found, step = [], 0
  for e, length in enumerate(episodes.lengths):
    rows = episodes.observations[step + e : step + e + length + 1, 0]
    assert (np.abs(np.diff(rows)) == 1).all()
    steps = slice(step, step + length)
    assert (episodes.rewards[steps] == np.abs(rows[1:])).all()
    assert (episodes.actions[steps] == np.abs(rows[1:]) % 2).all()
    ends = episodes.terminated[steps], episodes.truncated[steps]
    found.append((*rows[[0, -1]], *(x[-1] for x in ends)))
    step += length
  return found


def test_each_episode_has_its_own_steps(tmp_path):
  """Episodes of 3 and 3,000 steps: more than the steps in memory at first."""
  counted = Counted()
  recorder = recorder_lib.Recorder(tmp_path, "a", CONFIG, counted.environment)
  with recorder:
    recorder.add(None, counted.reset())
    for step in range(1, 3_001):
      # Steps 3, 7, 11...: in each fourth step, the first environment is reset.
      recorder.add(*counted.step([step % 4 == 3, step == 3_000], step == 3_000))
  episodes = recordings.read(tmp_path, counted.environment.spec)
  expected = [(i - 3, i, True, False) for i in range(3, 3_000, 4)]
  assert describe(episodes) == [*expected, (0, -3_000, False, True)]
  assert recorder.episodes == len(expected) + 1


def test_an_episode_that_began_before_is_not_recorded(tmp_path):
  """As after a resume: the recorder has not seen its first steps."""
  counted = Counted()
  with recorder_lib.Recorder(
    tmp_path, "a", CONFIG, counted.environment
  ) as recorder:
    for ended in ([0, 0], [1, 0], [0, 0], [0, 1], [1, 0], [0, 0]):
      recorder.add(*counted.step([bool(x) for x in ended]))
  episodes = recordings.read(tmp_path, counted.environment.spec)
  assert describe(episodes) == [(3, 5, True, False)]


def test_recorders_share_a_folder(tmp_path):
  """A later one appends, and one with the same name replaces no part."""
  counted = [Counted() for _ in range(3)]
  names = ["a", "a", "b"]
  recorders = [
    recorder_lib.Recorder(tmp_path, name, CONFIG, each.environment)
    for name, each in zip(names, counted, strict=True)
  ]
  for recorder, each in zip(recorders, counted, strict=True):
    recorder.add(None, each.reset())
    recorder.add(*each.step([True, True]))
    assert recorder.close() == 0
  assert sorted(os.listdir(tmp_path)) == [
    *("a-000000-v0", "a-000001-v0", "b-000000-v0")
  ]
  spec = counted[0].environment.spec
  assert len(recordings.read(tmp_path, spec).lengths) == 6


_PLAY = """
import itertools, sys
from slipway.environments import factory
from slipway.environments import recorder as recorder_lib
from tests.environments import given, recorder_test

recorder_lib._PART_BYTES = 30_000
counted = recorder_test.Counted()
recorder = recorder_lib.Recorder(
  sys.argv[1], "a", given.config_of("CartPole-v1"), counted.environment
)
recorder.add(None, counted.reset())
for step in itertools.count(1):
  recorder.add(*counted.step([step % 20 == 0, step % 50 == 0]))
"""


def test_a_kill_leaves_whole_episodes(tmp_path):
  """SIGKILL at random moments: the parts are whole, and the next one appends.

  Each process writes some hundred parts per second.
  """
  moments, total = random.Random(0), 0
  spec = factory.make_spec(CONFIG)
  for _ in range(6):
    process = subprocess.Popen([sys.executable, "-c", _PLAY, str(tmp_path)])
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("a-*"))) < total + 3:
      assert process.poll() is None and time.monotonic() < deadline
      time.sleep(0.01)
    time.sleep(0.2 * moments.random())
    process.send_signal(signal.SIGKILL)
    process.wait()
    names = sorted(x.name for x in tmp_path.glob("a-*"))
    assert names == [f"a-{i:06d}-v0" for i in range(len(names))]
    assert len(names) >= total + 3
    for name in names[total:]:
      found = describe(recordings.read(tmp_path / name, spec))
      assert {abs(last - first) for first, last, *_ in found} <= {
        19,
        20,
        49,
        50,
      }
    total = len(names)
  assert len(recordings.read(tmp_path, spec).lengths) > 10 * total


@small_disk.needs_root
def test_a_full_disk(tmp_path, caplog, monkeypatch):
  """It ends nothing: the parts are written once the disk has space."""
  monkeypatch.setattr(recorder_lib, "_PART_BYTES", 30_000)
  caplog.set_level(logging.WARNING)
  counted = Counted()
  with small_disk.mounted(tmp_path / "disk", 4) as disk:
    filler = small_disk.fill(disk, free=200_000)
    recorder = recorder_lib.Recorder(
      disk / "episodes", "a", CONFIG, counted.environment
    )
    recorder.add(None, counted.reset())
    played = 0
    while not caplog.messages:
      recorder.add(*counted.step([True, False]))
      played += 1
      recorder.add(*counted.step([False, False]))
      time.sleep(0.001)
    (message,) = caplog.messages
    assert "No space left on device" in message and "\n" not in message
    filler.unlink()
    assert recorder.close() == 0
    assert caplog.messages == [message]
    episodes = recordings.read(disk / "episodes", counted.environment.spec)
    assert len(episodes.lengths) == played == recorder.episodes


@small_disk.needs_root
def test_episodes_that_do_not_fit_into_memory_are_counted(
  tmp_path, caplog, monkeypatch
):
  monkeypatch.setattr(recorder_lib, "_PART_BYTES", 30_000)
  monkeypatch.setattr(recorder_lib, "_MAX_BYTES", 100_000)
  counted = Counted()
  with small_disk.mounted(tmp_path / "disk", 4) as disk:
    small_disk.fill(disk)
    recorder = recorder_lib.Recorder(
      disk / "episodes", "a", CONFIG, counted.environment
    )
    recorder.add(None, counted.reset())
    for _ in range(1_000):
      recorder.add(*counted.step([True, False]))
      recorder.add(*counted.step([False, False]))
    assert recorder.close() == recorder.episodes == 1_000
    assert "1000 recorded episodes are lost" in caplog.messages[-1]
    assert not (disk / "episodes").exists() or not os.listdir(disk / "episodes")


def test_a_slow_disk_does_not_block_the_environments(tmp_path, monkeypatch):
  monkeypatch.setattr(recorder_lib, "_PART_BYTES", 30_000)
  fsync, is_quick = os.fsync, threading.Event()

  def wait_and_fsync(descriptor):
    is_quick.wait(1.0)
    fsync(descriptor)

  monkeypatch.setattr(os, "fsync", wait_and_fsync)
  counted = Counted()
  recorder = recorder_lib.Recorder(tmp_path, "a", CONFIG, counted.environment)
  recorder.add(None, counted.reset())
  began_s, longest_s = time.monotonic(), 0.0
  while time.monotonic() < began_s + 1.5:
    before_s = time.monotonic()
    recorder.add(*counted.step([counted.steps % 2 == 0, False]))
    longest_s = max(longest_s, time.monotonic() - before_s)
    time.sleep(0.001)
  assert longest_s < 0.5
  is_quick.set()
  assert recorder.close() == 0
  episodes = recordings.read(tmp_path, counted.environment.spec)
  assert len(episodes.lengths) == recorder.episodes


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1"])
def test_a_part_has_as_many_steps_as_it_says(tmp_path, name):
  import minari

  config = given.config_of(name)
  environment = factory.make(config, 2, seed=3)
  generator = np.random.default_rng(0)
  with recorder_lib.Recorder(tmp_path, "x/y", config, environment) as recorder:
    step = environment.reset()
    recorder.add(None, step)
    for _ in range(200):
      actions = environment.sample_actions(step.observation, generator)
      step = environment.step(actions)
      recorder.add(actions, step)
  dataset = minari.MinariDataset(tmp_path / "x_y-000000-v0" / "data")
  assert dataset.total_episodes == recorder.episodes == len(list(dataset))
  assert dataset.total_steps == sum(len(episode) for episode in dataset)
  assert dataset.id == "x_y-000000-v0"


def test_processes_that_share_a_name_write_all_parts(tmp_path):
  """Two at the same time, as two runs of a sweep do."""
  play = _PLAY.replace("itertools.count(1)", "range(1, 20_001)")
  play += "assert recorder.close() == 0\n"
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", play, str(tmp_path)], stderr=subprocess.PIPE
    )
    for _ in range(2)
  ]
  for process in processes:
    assert (process.communicate()[1], process.returncode) == (b"", 0)
  spec = factory.make_spec(CONFIG)
  episodes = recordings.read(tmp_path, spec)
  assert len(episodes.lengths) == 2 * (20_000 // 20 + 20_000 // 50)
  assert all(x.startswith("a-") for x in os.listdir(tmp_path))
