"""RunCounters: equal after the disk, and what is refused."""

import json

import pytest

from launch.runs import run_counters

COUNTERS = run_counters.RunCounters(
  mode="async",
  environment_steps=123_456_789_012,
  trainer_steps=4_000,
  variables_version=41,
  replay_size=50_000,
  wall_s=0.1 + 0.2,
  evaluations=7,
  eval_return=-21.0,
  best_eval_return=None,
  resumes=1,
  lost={"trainer_steps": 40},
  nodes={"worker/0": {"counts": {"env_steps": 3}, "lives": 2}},
)


def test_equal_after_the_disk(tmp_path):
  COUNTERS.write(tmp_path)
  assert run_counters.RunCounters.read(tmp_path) == COUNTERS
  assert run_counters.RunCounters.from_json(COUNTERS.to_json()) == COUNTERS


@pytest.mark.parametrize(
  "change, complaint",
  [
    ({"mode": 1}, "mode is 1"),
    ({"trainer_steps": -1}, "trainer_steps is -1"),
    ({"trainer_steps": 1.5}, "trainer_steps is 1.5"),
    ({"trainer_steps": True}, "trainer_steps is True"),
    ({"wall_s": "1"}, "wall_s is '1'"),
    ({"wall_s": float("nan")}, "wall_s is nan"),
    ({"eval_return": "1"}, "eval_return is '1'"),
    ({"nodes": []}, "nodes is []"),
    ({"more": 1}, "it must hold mode, environment_steps, trainer_steps"),
  ],
)
def test_other_values_are_refused(tmp_path, change, complaint):
  COUNTERS.write(tmp_path)
  path = tmp_path / run_counters.FILE
  path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
  with pytest.raises(ValueError) as error:
    run_counters.RunCounters.read(tmp_path)
  assert complaint in str(error.value) and str(path) in str(error.value)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"trainer_steps": 3}'])
def test_other_files_are_refused(tmp_path, text):
  with pytest.raises(ValueError, match="resume from another snapshot"):
    run_counters.RunCounters.read(tmp_path)
  (tmp_path / run_counters.FILE).write_text(text)
  with pytest.raises(ValueError, match="resume from another snapshot"):
    run_counters.RunCounters.read(tmp_path)


def test_whole_wall_clock_seconds_are_fit(tmp_path):
  path = tmp_path / run_counters.FILE
  COUNTERS.write(tmp_path)
  path.write_text(json.dumps({**json.loads(path.read_text()), "wall_s": 3}))
  assert run_counters.RunCounters.read(tmp_path).wall_s == 3
