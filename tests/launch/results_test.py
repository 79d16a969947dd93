"""Results: every file is read back by those who read such files."""

import csv
import json
import math
import os
import subprocess
import sys

import matplotlib.image
import ml_collections
import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator

from launch import curves, results, run_folder


def make_folder(path, target=math.inf):
  folder = run_folder.RunFolder.create(path, "a-run", overwrite=False)
  folder.write_config(
    ml_collections.ConfigDict({"limits": {"target_return": target}})
  )
  return folder


def status_at(wall_s, env_steps, trainer_steps, start_up_s=None, **more):
  return {
    "wall_s": wall_s,
    "env_steps": env_steps,
    "trainer_steps": trainer_steps,
    "start_up_s": start_up_s,
    **more,
  }


def read_rows(folder):
  with open(folder.curves_csv, newline="") as file:
    return list(csv.DictReader(file))


def read_scalars(folder):
  events = event_accumulator.EventAccumulator(str(folder.events))
  events.Reload()
  return {
    name: [(event.step, event.value) for event in events.Scalars(name)]
    for name in events.Tags()["scalars"]
  }


def test_an_evaluation_is_a_row():
  status = status_at(9.0, 500, 60, env_steps_per_s=55.0)
  row = results.evaluation_row(status, [1.0, 3.0], [10, 30], 4)
  assert set(row) == set(curves.COLUMNS)
  assert row["eval_return"] == 2.0
  assert row["eval_return_std"] == 1.0
  assert row["eval_episodes"] == 2
  assert row["eval_length"] == 20.0
  assert row["variables_version"] == 4
  assert row["env_steps_per_s"] == 55.0
  assert row["trainer_steps_per_s"] is None


def test_curves_go_on_after_a_resume(tmp_path):
  folder = make_folder(tmp_path)
  for part in range(2):
    written = results.Results(folder)
    for i in range(2 * part, 2 * part + 2):
      written.add_evaluation({"wall_s": i / 3, "env_steps": i})
      assert len(read_rows(folder)) == i + 1  # Flushed.
    written.close()
    with open(folder.curves_csv, "a") as file:
      file.write("0.1,7")  # Where a full disk stopped.
  results.Results(folder).close()
  rows = read_rows(folder)
  assert list(rows[0]) == list(curves.COLUMNS)
  assert [row["env_steps"] for row in rows] == ["0", "1", "2", "3"]
  assert rows[1]["wall_s"] == "0.3333333333"
  assert rows[1]["eval_return"] == ""


def test_an_unknown_column(tmp_path):
  written = results.Results(make_folder(tmp_path))
  with pytest.raises(ValueError, match="eval_retrun"):
    written.add_evaluation({"eval_retrun": 1.0})
  written.close()


def test_tensorboard_reads_the_scalars(tmp_path):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  for steps in (100, 200):
    status = status_at(
      steps / 10,
      steps,
      0,
      env_steps_per_s=steps / 2,
      training_return=None,
      metrics={"loss": np.float32(0.5), "q_mean": math.nan},
      proxy={"connections": 4, "variables_version": None},
      items_confirmed=steps - 2,
      items_lost=1,
      items_per_s=9.5,
      reconnects=3,
      workers={"0": {"streams": 1}, "11": {"items_lost": 1, "streams": 2}},
    )
    written.add_metrics(status)
  written.add_evaluation({"env_steps": 150, "eval_return": 21.5})
  # Each is on the disk before close().
  scalars = read_scalars(folder)
  written.close()
  assert scalars["throughput/environment_steps_per_s"] == [
    (100, 50.0),
    (200, 100.0),
  ]
  assert scalars["evaluation/mean_return"] == [(150, 21.5)]
  assert scalars["learner/loss"] == [(100, 0.5), (200, 0.5)]
  assert all(math.isnan(value) for _, value in scalars["learner/q_mean"])
  assert scalars["proxy/connections"] == [(100, 4.0), (200, 4.0)]
  assert not {"training/mean_return", "proxy/variables_version"} & set(scalars)
  newest = {name: values[-1][1] for name, values in scalars.items()}
  assert newest["items/confirmed"] == 198
  assert newest["items/lost"] == 1
  assert newest["items/per_s"] == 9.5
  assert newest["workers/reconnects"] == 3
  assert newest["worker_0/streams"] == 1
  assert newest["worker_11/streams"] == 2
  assert newest["worker_11/items_lost"] == 1


# Statuses in their order, and of the summary the environment steps and the
# trainer steps a second, and the trainer steps an environment step.
RATES = [
  ([status_at(9, 500, 0)], (None, None, None)),
  ([status_at(9, 500, 1, 9)], (None, None, None)),
  ([status_at(9, 500, 1, 9), status_at(19, 1500, 101, 9)], (100, 10, 0.1)),
  # Workers wait for the trainer.
  ([status_at(9, 500, 1, 9), status_at(19, 500, 101, 9)], (0, 10, None)),
  (
    [
      status_at(2, 400, 0),
      status_at(9, 500, 1, 9),
      status_at(13, 700, 3, 9),
      status_at(14, 750, 11, 9),
    ],
    (50, 2, 0.04),
  ),
]


@pytest.mark.parametrize(("statuses", "rates"), RATES)
def test_the_summary_has_the_rates_of_the_learning(tmp_path, statuses, rates):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  for status in statuses:
    written.add_metrics(status)
  written.write_summary(statuses[-1])
  written.close()
  summary = json.loads(folder.summary.read_text())
  ratio = "trainer_steps_per_env_step"
  keys = ("env_steps_per_s", "trainer_steps_per_s", ratio)
  assert tuple(summary[key] for key in keys) == rates
  scalars = read_scalars(folder)
  tag = "replay/trainer_steps_per_environment_step"
  ratios = [value for _, value in scalars.get(tag, [])]
  assert ratios[-1:] == ([] if rates[2] is None else [pytest.approx(rates[2])])


def test_the_summary(tmp_path):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  written.write_summary({})
  assert set(json.loads(folder.summary.read_text()).values()) == {None}
  status = status_at(
    9,
    500,
    60,
    eval_return=-math.inf,
    stopped_because="target_return",
    items_confirmed=480,
    items_lost=5,
    reconnects=2,
  )
  written.write_summary(status)
  written.close()
  summary = json.loads(folder.summary.read_text())
  assert summary["eval_return"] is None
  assert summary["stopped_because"] == "target_return"
  assert summary["env_steps"] == 500
  assert summary["items_confirmed"] == 480
  assert summary["items_lost"] == 5
  assert summary["reconnects"] == 2
  assert not list(folder.path.glob(".summary*"))


def colours(pixels):
  return {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()}


RETURN, TARGET = (0x1F, 0x6F, 0xB4), (0xC2, 0x57, 0x1A)


@pytest.mark.parametrize(
  ("evaluations", "target", "has_return", "has_target"),
  [
    (0, math.inf, False, False),
    (1, 475.0, True, True),
    (12, math.inf, True, False),
    (200, 0.0, True, True),
  ],
)
def test_the_picture_shows_what_there_is(
  tmp_path, evaluations, target, has_return, has_target
):
  folder = make_folder(tmp_path, target)
  written = results.Results(folder)
  for i in range(evaluations):
    status = status_at(40.0 * i + 40.0, 1000 * i + 1000, i)
    written.add_evaluation(
      results.evaluation_row(status, [2.0 * i, 3.0 * i], [9, 9], i)
    )
  written.draw_curves()
  written.close()
  picture = matplotlib.image.imread(folder.curves_png)[..., :3]
  pixels = np.round(255 * picture).astype(np.uint8)
  assert pixels.shape == (630, 1440, 3)
  # Inside of the axes: the legend is below them.
  for panel in (pixels[80:480, 110:720], pixels[80:480, 800:1410]):
    assert (RETURN in colours(panel)) == has_return
    assert (TARGET in colours(panel)) == has_target


def test_the_picture_needs_curves_that_can_be_read(tmp_path):
  folder = make_folder(tmp_path)
  for text in (None, "a,b\n1,2\n", ",".join(curves.COLUMNS) + "\nx,2\n"):
    if text is not None:
      folder.curves_csv.write_text(text)
    with pytest.raises(ValueError) as caught:
      curves.draw(folder)
    assert repr(str(folder.curves_csv)) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  folder.curves_csv.unlink()
  folder.curves_csv.symlink_to("/dev/full")
  with pytest.raises(OSError) as caught:
    written.add_evaluation({"env_steps": 1})
  assert str(caught.value).startswith(repr(str(folder.curves_csv)))
  assert "No space left on device" in str(caught.value)
  assert "\n" not in str(caught.value)
  written.close()


@pytest.mark.parametrize("name", ["summary", "curves_png"])
def test_a_file_that_cannot_be_replaced(tmp_path, name):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  path = getattr(folder, name)
  path.mkdir()
  write = {
    "summary": lambda: written.write_summary({}),
    "curves_png": written.draw_curves,
  }
  with pytest.raises(OSError) as caught:
    write[name]()
  written.close()
  assert str(caught.value).startswith(repr(str(path)))
  assert not [entry for entry in folder.path.iterdir() if entry.name[0] == "."]


def test_no_heavy_import():
  code = (
    "import sys; from launch import panel, results; "
    "heavy = {'tensorflow', 'reverb', 'launchpad', 'matplotlib'}; "
    "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
  )
  done = subprocess.run(
    [sys.executable, "-c", code],
    capture_output=True,
    text=True,
    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
  )
  assert done.returncode == 0, done.stderr
