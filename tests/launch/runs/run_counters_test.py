"""Tests that read counters equal the written ones, and that others fail."""

import json

import pytest

from slipway.launch.runs import run_counters

COUNTERS = run_counters.RunCounters(
  mode="async",
  environment_steps=123_456_789_012,
  episodes=7_000,
  trainer_steps=4_000,
  variables_version=41,
  replay_size=50_000,
  wall_s=0.1 + 0.2,
  evaluations=7,
  eval_returns=[-20.5, -21.0],
  best_eval_return=None,
  evaluations_without_improvement=0,
  resumes=1,
  nodes={
    "worker": {
      3: run_counters.NodeCounters(
        run_counters.NodeCounts(env_steps=3),
        run_counters.NodeCounts(env_steps=1),
        process=1.5,
        incarnations=2,
      )
    }
  },
)


def change(path, **fields):
  """Changes fields of the record in a file."""
  found = json.loads(path.read_text())
  found["record"] |= fields
  path.write_text(json.dumps(found))


def test_read_counters_equal_the_written_ones(tmp_path):
  COUNTERS.write(tmp_path)
  assert run_counters.RunCounters.read(tmp_path) == COUNTERS
  assert run_counters.RunCounters.from_json(COUNTERS.to_json()) == COUNTERS


@pytest.mark.parametrize(
  "fields, path_of_the_field",
  [
    ({"mode": 1}, "$.mode"),
    ({"trainer_steps": -1}, "$.trainer_steps"),
    ({"trainer_steps": 1.5}, "$.trainer_steps"),
    ({"trainer_steps": True}, "$.trainer_steps"),
    ({"wall_s": "1"}, "$.wall_s"),
    ({"wall_s": None}, "$.wall_s"),
    ({"eval_returns": ["1"]}, "$.eval_returns"),
    ({"nodes": []}, "$.nodes"),
    ({"nodes": {"worker": {"x": {}}}}, "$.nodes"),
  ],
)
def test_other_values_are_rejected(tmp_path, fields, path_of_the_field):
  COUNTERS.write(tmp_path)
  path = tmp_path / run_counters.FILE
  change(path, **fields)
  with pytest.raises(ValueError) as error:
    run_counters.RunCounters.read(tmp_path)
  assert path_of_the_field in str(error.value)
  assert str(path) in str(error.value)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize(
  "text",
  [
    *("", "{", "[]", '{"trainer_steps": 3}', "\udcff"),
    '{"format_version": 1, "record": {}}',
  ],
)
def test_other_files_are_rejected(tmp_path, text):
  with pytest.raises(ValueError, match="resume from another snapshot"):
    run_counters.RunCounters.read(tmp_path)
  path = tmp_path / run_counters.FILE
  path.write_text(text, errors="surrogateescape")
  with pytest.raises(ValueError, match="resume from another snapshot"):
    run_counters.RunCounters.read(tmp_path)


def test_another_format_is_rejected(tmp_path):
  COUNTERS.write(tmp_path)
  path = tmp_path / run_counters.FILE
  found = json.loads(path.read_text())
  path.write_text(json.dumps({**found, "format_version": 2}))
  with pytest.raises(ValueError, match="format_version is 2"):
    run_counters.RunCounters.read(tmp_path)


def test_whole_wall_clock_seconds_are_accepted(tmp_path):
  COUNTERS.write(tmp_path)
  change(tmp_path / run_counters.FILE, wall_s=3)
  assert run_counters.RunCounters.read(tmp_path).wall_s == 3
