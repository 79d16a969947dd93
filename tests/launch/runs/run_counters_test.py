"""Tests that read counters equal the written ones, and that others fail."""

import json

import pytest

from slipway.launch.runs import run_counters, run_status

COUNTERS = run_counters.RunCounters(
  status=run_status.RunStatus(
    env_steps=123_456_789_012,
    trainer_steps=4_000,
    wall_s=0.1 + 0.2,
    limits=run_status.Limits(target_return=475.0),
    learning_since=run_status.Milestone(1.5, 10, 1),
    nodes={"worker": run_status.NodesStatus(1, 2)},
  ),
  eval_returns=[-20.5, -21.0],
  nodes={
    "worker": {
      3: run_counters.NodeCounters(
        run_status.NodeCounts(env_steps=3),
        run_status.NodeCounts(env_steps=1),
        process=1.5,
        incarnations=2,
      )
    }
  },
)


def test_read_counters_equal_the_written_ones(tmp_path):
  COUNTERS.write(tmp_path)
  assert run_counters.RunCounters.read(tmp_path) == COUNTERS


@pytest.mark.parametrize(
  "text",
  [
    *("", "{", "[]", '{"trainer_steps": 3}', "\udcff"),
    '{"format_version": 1, "record": {}}',
    '{"format_version": 2, "status": {}}',
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
  path.write_text(json.dumps({**found, "format_version": 3}))
  with pytest.raises(ValueError, match="format_version"):
    run_counters.RunCounters.read(tmp_path)
