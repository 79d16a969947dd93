"""Tests of the rows with counts, rates and returns."""

import re

import msgspec
import pytest

from slipway.launch.display import lines
from slipway.launch.runs import run_status
from tests.launch.display import given


def test_a_queue_shows_what_was_consumed():
  status = given.changed(replay={"is_queue": True})
  text = given.render_text(status)
  assert "sampling 42,310 in queue 987,000 consumed" in text
  assert "samples/insert" not in text
  line = lines.progress_line(status)
  assert "sampling 42,310 in queue (987,000 consumed)" in line
  assert "samples/insert" not in line


def test_a_run_without_workers_has_no_worker_rows():
  status = given.changed(
    nodes={"trainer": run_status.NodesStatus(1, 1)}, proxy=None
  )
  status = msgspec.structs.replace(status, replay=None)
  text = given.render_text(status)
  for label in ("environment ", "items ", "replay ", "sampling", "speed",
                "loading", "training"):  # fmt: skip
    assert f" {label}" not in text.partition("time left")[0]
  assert "15,432" in text
  line = lines.progress_line(status)
  assert "replay" not in line and "sampling" not in line


def test_numbers_of_infos_have_a_row_and_a_part_of_the_line():
  status = given.changed(evaluation={"info": {"is_success": 0.8125}})
  (line,) = (x for x in given.render_lines(status) if "is_success" in x)
  assert line.strip("│ ") == "0.81 mean is_success"
  assert ", mean is_success 0.81 after" in lines.evaluation_line(status)


# section and field of a target, label of its row, text of the value 2.0
TARGETS = [
  ("rates", "env_steps_per_s_target", "speed", "2"),
  ("replay", "samples_per_insert_target", "sampling", "2.00"),
  ("variables", "loads_per_trainer_step_target", "loading", "2"),
]


@pytest.mark.parametrize(("section", "key", "label", "two"), TARGETS)
def test_each_rate_is_shown_next_to_its_target(section, key, label, two):
  for value, text in ((2.0, f"{two} target"), (0.0, "no limit")):
    status = given.changed(**{section: {key: value}})
    (line,) = (line for line in given.render_lines(status) if label in line)
    assert line.rstrip("│ ").endswith(f" {text}")


def test_a_loss_stands_out():
  for lost, status in (
    (0, given.NOTHING_LOST),
    (7, given.changed(given.NOTHING_LOST, items_lost=7)),
  ):
    text = given.render_colored(status)
    assert text.count("33m") == (lost > 0)
    assert len(re.findall("33m *7\x1b", text)) == (lost > 0)


def test_snapshots_that_were_not_uploaded_stand_out():
  for failures in (0, 4):
    status = given.changed(snapshots={"upload_failures": failures})
    text = given.render_text(status, width=100)
    assert ("not uploaded" in text) == (failures > 0)
    line = lines.progress_line(status)
    assert ("4 not uploaded" in line) == (failures > 0)


def test_no_proxy():
  text = given.render_text(given.changed(proxy=None))
  assert "proxy" not in text
  assert "MB/s" not in text


@pytest.mark.parametrize("width", [60, 80])
def test_evaluations_at_the_target_are_counted(width):
  for at_target, label in ((0, "target"), (2, "target 2/3"), (5, "target 3/3")):
    status = given.changed(
      limits={"target_evaluations": 3}, evaluation={"at_target": at_target}
    )
    (line,) = (
      line for line in given.render_lines(status, width=width) if "best" in line
    )
    assert line.rstrip("│ ").endswith(f"475.00 {label}")
    assert f"475.00 {label})" in lines.evaluation_line(status)


def test_a_target_of_infos_is_next_to_its_number():
  status = given.changed(
    limits={"target_evaluations": 3, "target_info": "success:0.9"},
    evaluation={"info": {"success": 0.95, "x": 2.0}, "at_target_info": 2},
  )
  texts = [" ".join(line.split()) for line in given.render_lines(status)]
  assert "│ 0.95 mean success 0.90 target 2/3 │" in texts
  assert "│ 2.00 mean x │" in texts
