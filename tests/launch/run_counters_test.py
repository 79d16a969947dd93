"""RunCounters: equal after the disk, and what is refused."""

import json

import pytest

from launch import run_counters

COUNTERS = run_counters.RunCounters(
  environment_steps=123_456_789_012,
  trainer_steps=4_000,
  variables_version=41,
  wall_s=0.1 + 0.2,
  evaluations=[
    {"wall_s": 1.5, "eval_return": -21.0, "train_return": None},
    {"wall_s": 2.5, "eval_return": float("nan"), "train_return": 3.0},
  ],
)


def test_equal_after_the_disk(tmp_path):
  path = tmp_path / "counters.json"
  COUNTERS.write(path)
  # NaN is no equal of itself; as text it is.
  assert repr(run_counters.RunCounters.read(path)) == repr(COUNTERS)


@pytest.mark.parametrize(
  "change, complaint",
  [
    ({"trainer_steps": -1}, "trainer_steps is -1"),
    ({"trainer_steps": 1.5}, "trainer_steps is 1.5"),
    ({"trainer_steps": True}, "trainer_steps is True"),
    ({"wall_s": "1"}, "wall_s is '1'"),
    ({"wall_s": float("nan")}, "wall_s is nan"),
    ({"evaluations": {}}, "evaluations is {}"),
    ({"more": 1}, "it must hold environment_steps, trainer_steps"),
  ],
)
def test_other_values_are_refused(tmp_path, change, complaint):
  path = tmp_path / "counters.json"
  COUNTERS.write(path)
  path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
  with pytest.raises(ValueError) as error:
    run_counters.RunCounters.read(path)
  assert complaint in str(error.value) and str(path) in str(error.value)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"trainer_steps": 3}'])
def test_other_files_are_refused(tmp_path, text):
  path = tmp_path / "counters.json"
  path.write_text(text)
  with pytest.raises(ValueError, match="resume from another snapshot"):
    run_counters.RunCounters.read(path)
  with pytest.raises(ValueError, match="resume from another snapshot"):
    run_counters.RunCounters.read(tmp_path / "missing.json")


def test_whole_wall_clock_seconds_are_fit(tmp_path):
  path = tmp_path / "counters.json"
  run_counters.RunCounters(0, 0, 0, 3, []).write(path)
  assert run_counters.RunCounters.read(path).wall_s == 3
