"""External processes that connect, are killed and reconnect; hanging steps.

One test has no workers, as with a robot: the environment only defines spaces.
"""

import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import slipway
from slipway.environments import factory, recordings

pytestmark = [pytest.mark.runs, pytest.mark.timeout(300)]

# A user's own environment loop: walking to the right is rewarded.
_LOOP = """
import sys
import slipway

with slipway.connect(sys.argv[1]) as run:
  steps, at, observation = 0, 0, [0.0] * 4
  print("connected", run.index, flush=True)
  try:
    while True:
      action = run.act(observation)
      steps, at = steps + 1, at + (1 if action else -1)
      observation = [at / 8, 0.0, 0.0, 0.0]
      ended = abs(at) == 8
      run.observe(float(at == 8), ended, steps % 50 == 0, observation)
      if ended or steps % 50 == 0:
        at, observation = 0, [0.0] * 4
      if steps % 100 == 0:
        print("steps", steps, flush=True)
  except slipway.RunEndedError as error:
    print(f"ended: {error}", flush=True)
"""

_ROBOT = """
import gymnasium
import numpy as np

class Robot(gymnasium.Env):
  observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)

gymnasium.register("Robot-v0", Robot)
"""

_SLOW = """
import os
import pathlib
import time
import gymnasium
from gymnasium.envs.classic_control import cartpole

class Slow(cartpole.CartPoleEnv):
  def step(self, action):
    try:
      pathlib.Path(os.environ["HANG"]).unlink()  # only one process hangs
    except FileNotFoundError:
      return super().step(action)
    time.sleep(600)

gymnasium.register("Slow-v0", Slow, max_episode_steps=500)
"""


class Loop:
  """An external process that runs the environment loop `_LOOP`."""

  def __init__(self, run, folder, name):
    script = folder / "loop.py"
    script.write_text(_LOOP)
    self._output = folder / name
    with open(self._output, "w") as output:
      self.process = subprocess.Popen(
        [sys.executable, str(script), str(run.path)],
        stdout=output,
        stderr=subprocess.STDOUT,
      )

  @property
  def text(self):
    return self._output.read_text()


@pytest.fixture
def start_loop(tmp_path):
  loops = []

  def start(run):
    loops.append(Loop(run, tmp_path, f"loop-{len(loops)}"))
    return loops[-1]

  yield start
  for loop in loops:
    loop.process.kill()


def test_learning_from_a_robot(start_run, start_loop, tmp_path, monkeypatch):
  (tmp_path / "robot.py").write_text(_ROBOT)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  monkeypatch.syspath_prepend(tmp_path)
  run = start_run(
    "--config.environment.name=robot:Robot-v0",
    "--config.environment.external=True",
    "--config.topology.workers=0",
    "--config.watchdog.period_s=5.0",
    f"--config.recording.path={tmp_path / 'episodes'}",
  )
  run.wait_until(lambda: (run.path / "control.json").exists())
  assert f"slipway.connect({str(run.path)!r})" in run.stdout
  assert run.status()["nodes"]["external"] == {"up": 0, "expected": 0}
  assert "evaluator" not in run.status()["nodes"]
  loop = start_loop(run)
  run.wait_until_learning()
  run.wait_until(lambda: run.status()["variables"]["version"] > 1)
  status = run.status()
  assert status["env_steps"] > 200
  assert status["trainer_steps"] > 0
  assert status["nodes"]["external"] == {"up": 1, "expected": 1}
  other = slipway.connect(run.path)
  assert other.index == 1
  other.close()
  with pytest.raises(ValueError, match="act was called after close"):
    other.act([0.0] * 4)
  loop.process.send_signal(signal.SIGKILL)
  loop.process.wait()
  run.wait_until(lambda: run.status()["nodes"]["external"]["up"] == 0)
  # A connection of one episode delivers its 8 transitions, 4 per item.
  written = run.status()["items_written"]
  with slipway.connect(run.path) as other:
    for step in range(1, 9):
      other.act([0.0] * 4)
      other.observe(1.0, step == 8, False, [1.0, 0.0, 0.0, 0.0])
  run.wait_until(lambda: run.status()["items_written"] == written + 2)
  again = start_loop(run)
  before = run.status()["env_steps"]
  run.wait_until(lambda: run.status()["env_steps"] > before + 200)
  assert again.text.startswith("connected 0")
  assert run.status()["restarts"] == 0
  run.launcher.send_signal(signal.SIGINT)
  assert run.wait() == 0, run.stderr
  again.process.wait(20)
  assert "has ended: " in again.text
  assert "SIGINT" in again.text
  with pytest.raises(slipway.RunEndedError, match="has ended: SIGINT"):
    slipway.connect(run.path)
  run.check_nothing_left()
  config = slipway.load_config(str(run.path / "config.json"))
  spec = factory.make_spec(config.environment)
  episodes = recordings.read(tmp_path / "episodes", spec)
  assert len(episodes.lengths) > 4  # of the loop, with up to 50 steps each
  # The episode of this test is the only one with 8 rewards in a row.
  (ours,) = np.flatnonzero(np.convolve(episodes.rewards, np.ones(8)) == 8)
  assert ours + 1 in np.cumsum(episodes.lengths)


@pytest.mark.chaos
def test_a_pause_and_a_hanging_step(
  start_run, start_loop, control, tmp_path, monkeypatch
):
  (tmp_path / "slow.py").write_text(_SLOW)
  hang = pathlib.Path(tmp_path, "hang")
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  monkeypatch.setenv("HANG", str(hang))
  run = start_run(
    "--config.environment.name=slow:Slow-v0",
    "--config.environment.step_timeout_s=2.0",
    "--config.topology.workers=1",
  )
  run.wait_until_learning()
  loop = start_loop(run)
  run.wait_until(lambda: "steps 200" in loop.text)
  hang.touch()
  run.wait_until(lambda: run.status()["restarts"] == 1)
  (node,) = run.status()["node_restarts"]
  assert node in ("worker/0", "evaluator/0")
  log = run.log(node)
  assert "This node failed: environment slow:Slow-v0 (index " in log
  assert "step() has not returned for 2." in log
  assert "time.sleep(600)" in log
  steps = run.status()["env_steps"]
  run.wait_until(lambda: run.status()["env_steps"] > steps + 200)
  control(run, "pause")
  run.wait_until(lambda: run.status()["phase"] == "paused")
  time.sleep(1.0)  # until the last reports have arrived
  steps, text = run.status()["env_steps"], loop.text
  time.sleep(1.0)
  assert (run.status()["env_steps"], loop.text) == (steps, text)
  assert run.status()["nodes"]["external"]["up"] == 1
  control(run, "resume")
  run.wait_until(lambda: loop.text != text)
  control(run, "stop")
  assert run.wait() == 0, run.stderr
  loop.process.wait(20)
  assert "a user stopped it by slipway control" in loop.text
  run.check_nothing_left()
