"""Soak: half an hour of kills, a full disk, and an environment that leaks.

`make soak` runs it; the variable SOAK_MINUTES sets its length.
"""

import contextlib
import os
import random
import statistics
import time

import psutil
import pytest

from tests.distributed import chaos as chaos_lib
from tests.launch import small_disk

_MINUTES = float(os.environ.get("SOAK_MINUTES", 30))
pytestmark = [
  pytest.mark.soak,
  pytest.mark.timeout(60 * _MINUTES + 900),
  small_disk.needs_root,
]

_PAUSE_S = (2.0, 6.0)  # minimum and maximum seconds between two kills
_DISK_FULL_S = 20.0
_SETTLES_S = 300.0  # seconds after which a process's memory no longer grows
_SAMPLE_S = 5.0
# Noise of a process's private memory, by which two medians may differ: in
# bytes, and as a fraction.
_NOISE_BYTES, _NOISE = 8e6, 0.05

# The environment prints a line per step, and leaks a process that never ends.
_LEAKING = """
import subprocess
import gymnasium
from gymnasium.envs.classic_control import cartpole

class Leaking(cartpole.CartPoleEnv):
  def __init__(self, **kwargs):
    super().__init__(**kwargs)
    subprocess.Popen(["sleep", "100000"], start_new_session=True)

  def step(self, action):
    print("a line of an environment that prints at every step " * 4)
    return super().step(action)

gymnasium.register("Leaking-v0", Leaking, max_episode_steps=500)
"""


@pytest.fixture
def disk(tmp_path):
  with small_disk.mounted(tmp_path / "runs", megabytes=200) as path:
    yield path


class Memory:
  """Samples the private memory of a run's processes over time."""

  def __init__(self, run):
    self._run = run
    self._samples = {}  # process: list of (monotonic seconds, bytes)
    self._due_s = 0.0

  def sample(self):
    """Samples the memory of all processes, every `_SAMPLE_S` at most."""
    now_s = time.monotonic()
    if now_s < self._due_s:
      return
    self._due_s = now_s + _SAMPLE_S
    for process in self._run.processes():
      with contextlib.suppress(psutil.Error):  # it has ended
        if process.name() == "sleep":
          continue
        size = process.memory_full_info().uss
        self._samples.setdefault(process, []).append((now_s, size))

  def growth(self, settles_s):
    """Yields, per process, its name and medians of its memory.

    The name has the process ID and the log. The medians are bytes in the first
    and in the last third of the samples.

    Args:
      settles_s: initial seconds of each process whose samples do not count.
    """
    for process, samples in self._samples.items():
      begin_s = samples[0][0] + settles_s
      sizes = [size for at_s, size in samples if at_s >= begin_s]
      third = len(sizes) // 3
      if third >= 4:
        name = f"{process.pid}: {self._log(process)}"
        before, after = sizes[:third], sizes[-third:]
        yield name, statistics.median(before), statistics.median(after)

  def _log(self, process):
    try:
      return os.readlink(f"/proc/{process.pid}/fd/1").rpartition("logs/")[2]
    except OSError:
      return "ended"


def test_a_soak(start_run, disk, tmp_path, monkeypatch):
  (tmp_path / "leaking.py").write_text(_LEAKING)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  run = start_run(
    *(*chaos_lib.FLAGS, "--config.snapshot.period_s=5"),
    "--config.environment.name=leaking:Leaking-v0",
    "--config.network.hidden_sizes=(64, 64)",
    "--config.evaluation.episodes=20",
  )
  nodes = (*chaos_lib.NODES, "worker/0", "worker/1")
  chaos = chaos_lib.Chaos(run, 1, nodes, _PAUSE_S)
  half_s = 30.0 * _MINUTES
  begun_s = time.monotonic()
  # In the first half, all nodes are killed, and the disk is full for a while.
  while time.monotonic() < begun_s + half_s / 2:
    chaos.round()
  filler = small_disk.fill(disk)
  rng = random.Random(1)
  full_until_s = time.monotonic() + _DISK_FULL_S
  while time.monotonic() < full_until_s:
    # The trainer is not killed: its restart restores a snapshot, which needs
    # disk space.
    chaos.kill(rng.choice(("worker/0", "proxy/0")))
  assert run.status()["unwritten"]
  filler.unlink()
  run.wait_until(lambda: not run.status()["unwritten"])
  while time.monotonic() < begun_s + half_s:
    chaos.round()
  # In the second half, only one worker is killed, so that the other processes
  # run long enough to show a leak.
  memory = Memory(run)
  while time.monotonic() < begun_s + 2 * half_s:
    memory.sample()
    chaos.kill("worker/1")
  grown = list(memory.growth(min(_SETTLES_S, half_s / 3)))
  for name, before, after in grown:
    print(f"{name}: {before / 1e6:.1f} MB, later {after / 1e6:.1f} MB")
  measured = {name.rpartition(": ")[2] for name, *_ in grown}
  assert measured >= {*chaos_lib.NODES, "worker/0"}
  for name, before, after in grown:
    assert after < before + max(_NOISE_BYTES, _NOISE * before), name
  # The final policy may be worse again, since the learning rate is constant.
  assert max(row["eval_return"] for row in run.evaluations) >= 475.0
  chaos.end(target=1.0)
  log_sizes = [log.stat().st_size for log in (run.path / "logs").glob("*/*")]
  assert max(log_sizes) < 20e6
