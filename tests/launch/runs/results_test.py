"""Tests of the result files, which are read with the libraries of users."""

import csv
import json
import math
import os
import subprocess
import sys
import time

import matplotlib.image
import ml_collections
import msgspec
import numpy as np
import pytest
from tensorboard.backend.event_processing import (
  event_accumulator,
  plugin_event_accumulator,
  tag_types,
)
from tensorboard.plugins.hparams import metadata
from tensorboard.util import tensor_util

from slipway.configs import dqn
from slipway.launch.runs import (
  curves,
  outbox,
  results,
  run_folder,
  run_status,
)
from slipway.replay.tables import table_status
from tests.launch import small_disk


def make_folder(path, target=math.inf):
  folder = run_folder.RunFolder.create(path, "a-run", overwrite=False)
  folder.write_config(
    ml_collections.ConfigDict({"limits": {"target_return": target}})
  )
  return folder


def status_at(wall_s, env_steps, trainer_steps, start_up_s=None, **more):
  return run_status.RunStatus(
    wall_s=wall_s,
    env_steps=env_steps,
    trainer_steps=trainer_steps,
    start_up_s=start_up_s,
    **more,
  )


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


def read_as_tensorboard_does(folder):
  """Returns the scalars as read by the server of TensorBoard's web page."""
  events = plugin_event_accumulator.EventAccumulator(
    str(folder.events), tensor_size_guidance={"scalars": 0}
  )
  events.Reload()
  return {
    name: [
      (event.step, float(tensor_util.make_ndarray(event.tensor_proto)))
      for event in events.Tensors(name)
    ]
    for name in events.Tags()[tag_types.TENSORS]
  }


def test_an_evaluation_is_a_row():
  rates = run_status.RatesStatus(env_steps_per_s=55.0)
  status = status_at(9.0, 500, 60, rates=rates)
  row = results.make_evaluation(status, [1.0, 3.0], [10, 30], 4)
  assert row == curves.Evaluation(9.0, 500, 60, 2.0, 1.0, 2, 20.0, 4, 55.0, 0.0)


def write_incarnation(
  folder, env_steps, evaluated, evaluations=None, resumed_at=None
):
  """Writes the results of one incarnation of a run, which is then killed.

  Args:
    folder: the run's folder.
    env_steps: environment steps at which metrics are written; the trainer steps
      are a tenth of them.
    evaluated: those of `env_steps` at which an evaluation is written, too.
    evaluations: number of evaluations in the snapshot from which this
      incarnation resumes; None: only the writer restarts.
    resumed_at: environment steps in that snapshot.
  """
  written = results.Results(folder, evaluations, resumed_at)
  for step in env_steps:
    status = status_at(step / 10, step, step // 10, 9.0)
    written.add_metrics(status)
    if step in evaluated:
      row = results.make_evaluation(status, [step], [step], 1)
      written.add_evaluation(row)
  written.close()
  for path in (folder.curves_csv, written._events.path):
    with open(path, "ab") as file:
      file.write(b"12345678,9")  # an unfinished record, as left by a kill


@pytest.mark.parametrize("read", [read_scalars, read_as_tensorboard_does])
def test_tensorboard_shows_one_curve_after_resumes(tmp_path, read):
  folder = make_folder(tmp_path)
  write_incarnation(folder, [100, 200, 300, 300, 400, 500], {200, 300, 400})
  # The snapshot was made at 300 steps, after two evaluations.
  write_incarnation(
    folder, [300, 350, 450, 480], {450}, evaluations=2, resumed_at=300
  )
  write_incarnation(
    folder, [300, 320, 420], {420}, evaluations=2, resumed_at=300
  )
  # This snapshot was made at 420 steps, before the evaluation at that step.
  write_incarnation(
    folder, [420, 440, 460], {460}, evaluations=2, resumed_at=420
  )
  results.Results(folder, evaluations=3, env_steps=480).close()
  scalars = read(folder)
  steps = [100, 200, 300, 320, 420, 440, 460]
  # The steps of a resume itself are there twice, with equal values.
  assert dict(scalars["run/trainer_steps"]) == {n: n // 10 for n in steps}
  evaluated = {n: n for n in (200, 300, 420, 460)}
  assert dict(scalars["evaluation/mean_return"]) == evaluated
  rows = curves.read(folder.curves_csv)
  assert rows["env_steps"].tolist() == [200, 300, 460]


def test_rows_after_the_snapshot_are_removed_from_a_short_file(tmp_path):
  """The file of the first machine was lost, and began again without rows."""
  folder = make_folder(tmp_path)
  write_incarnation(
    folder, range(1100, 1600, 100), {1100, 1200, 1300}, 10, resumed_at=1000
  )
  resumed = {"evaluations": 12, "env_steps": 1200, "trainer_steps": 120}
  results.Results(folder, **resumed).close()
  rows = curves.read(folder.curves_csv)
  assert rows["env_steps"].tolist() == [1100, 1200]


@pytest.mark.parametrize("read", [read_scalars, read_as_tensorboard_does])
def test_nothing_is_dropped_if_only_the_writer_was_restarted(tmp_path, read):
  folder = make_folder(tmp_path)
  write_incarnation(folder, [100, 200], {100, 200})
  write_incarnation(folder, [300], set())
  results.Results(folder).close()
  scalars = read(folder)
  steps = [100, 200, 300]
  assert scalars["run/trainer_steps"] == [(n, n // 10) for n in steps]
  assert scalars["evaluation/mean_return"] == [(100, 100), (200, 200)]
  # A resume from step 0 drops everything.
  results.Results(folder, evaluations=0, env_steps=0).close()
  assert not any(read(folder).values())
  assert read_rows(folder) == []


def test_a_resume_within_a_second_or_with_a_late_clock(tmp_path, monkeypatch):
  folder = make_folder(tmp_path)
  now = time.time()
  for incarnation, (seconds, pid) in enumerate([(0, 9), (0, 10), (-99, 8)]):
    monkeypatch.setattr(time, "time", lambda s=seconds: now + s)
    monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
    write_incarnation(folder, [incarnation], set(), resumed_at=incarnation)
  scalars = read_scalars(folder)
  assert [n for n, _ in scalars["run/wall_s"]] == [0, 1, 2]
  assert len(list(folder.events.iterdir())) == 3


# number of evaluations in the snapshot, which of three rows are kept
KEPT = [(None, "012"), (0, ""), (2, "01"), (3, "012"), (7, "012")]


@pytest.mark.parametrize(("evaluations", "kept"), KEPT)
def test_rows_after_the_snapshot_are_dropped(tmp_path, evaluations, kept):
  folder = make_folder(tmp_path)
  write_incarnation(folder, range(3), range(3))
  results.Results(folder, evaluations, env_steps=2).close()
  rows = read_rows(folder)
  assert [row["env_steps"] for row in rows] == list(kept)
  assert not list(folder.path.glob(".curves*"))
  header = folder.curves_csv.read_text().splitlines()[0]
  assert header == ",".join(curves.COLUMNS)


def test_damaged_lines_do_not_count_as_evaluations(tmp_path):
  folder = make_folder(tmp_path)
  write_incarnation(folder, range(3), range(3))
  header, *lines = folder.curves_csv.read_bytes().splitlines(keepends=True)
  garbage = [b"\xff\x00\n", b"1,2\n", b"\n"]
  folder.curves_csv.write_bytes(b"".join([b"wall", *garbage, *lines]))
  results.Results(folder, evaluations=2, env_steps=2).close()
  assert folder.curves_csv.read_bytes() == b"".join([header, *lines[:2]])


def test_the_picture_continues_after_a_resume(tmp_path):
  """The picture equals that of the same run without a kill."""
  pictures = []
  for incarnations in (
    [((10, 20, 30, 40), None, None)],
    [((10, 20, 25, 28), None, None), ((30, 40), 2, 20)],
  ):
    folder = make_folder(tmp_path / str(len(incarnations)))
    for steps, evaluations, resumed_at in incarnations:
      write_incarnation(folder, steps, steps, evaluations, resumed_at)
    written = results.Results(folder, 4, 40)
    written.draw_curves()
    written.close()
    pictures.append(matplotlib.image.imread(folder.curves_png))
  np.testing.assert_array_equal(*pictures)


def test_curves_continue_after_a_resume(tmp_path):
  folder = make_folder(tmp_path)
  for part in range(2):
    written = results.Results(folder)
    for i in range(2 * part, 2 * part + 2):
      written.add_evaluation(curves.Evaluation(i / 3, i))
      assert len(read_rows(folder)) == i + 1  # each row is flushed
    written.close()
    with open(folder.curves_csv, "a") as file:
      file.write("0.1,7")  # a row that a full disk has cut off
  results.Results(folder).close()
  rows = read_rows(folder)
  assert list(rows[0]) == list(curves.COLUMNS)
  assert [row["env_steps"] for row in rows] == ["0", "1", "2", "3"]
  assert rows[1]["wall_s"] == "0.3333333333"
  assert rows[1]["eval_return"] == ""


def test_tensorboard_reads_the_scalars(tmp_path):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  for steps in (100, 200):
    status = status_at(
      steps / 10,
      steps,
      0,
      rates=run_status.RatesStatus(env_steps_per_s=steps / 2, items_per_s=9.5),
      learner={"loss": np.float32(0.5), "q_mean": math.nan},
      proxy=run_status.ProxyStatus(connections=4),
      items_confirmed=steps - 2,
      items_lost=1,
      replay=run_status.ReplayStatus(size=5, sampled=8),
      mode="sync",
      restarts=2,
      snapshots=run_status.SnapshotsStatus(6, 1.6e9, 1.5, 0.25),
      variables=run_status.VariablesStatus(loads_per_trainer_step=0.125),
      workers={
        0: run_status.WorkerStatus(streams=1),
        11: run_status.WorkerStatus(items_lost=1, streams=2),
      },
    )
    written.add_metrics(status)
  written.add_evaluation(curves.Evaluation(env_steps=150, eval_return=21.5))
  # Each scalar is on the disk before close().
  scalars = read_scalars(folder)
  written.close()
  assert scalars["rates/env_steps_per_s"] == [(100, 50.0), (200, 100.0)]
  assert scalars["evaluation/mean_return"] == [(150, 21.5)]
  assert scalars["learner/loss"] == [(100, 0.5), (200, 0.5)]
  assert scalars["proxy/connections"] == [(100, 4.0), (200, 4.0)]
  # What is unknown, no number, constant, or a point in time, has no curve.
  assert not scalars.keys() & {
    *("run/training_return", "proxy/variables_version", "learner/q_mean"),
    *("run/mode", "limits/trainer_steps", "snapshots/written_at_s"),
    *("snapshots/late", "workers/0/items_lost"),
  }
  newest = {name: values[-1][1] for name, values in scalars.items()}
  assert newest["run/items_confirmed"] == 198
  assert newest["run/items_lost"] == 1
  assert newest["rates/items_per_s"] == 9.5
  assert newest["replay/size"] == 5
  assert newest["replay/sampled"] == 8
  assert newest["run/restarts"] == 2
  assert newest["snapshots/written"] == 6
  assert newest["snapshots/age_s"] == 1.5
  assert newest["snapshots/pause_s"] == 0.25
  assert newest["variables/loads_per_trainer_step"] == 0.125
  assert newest["workers/0/streams"] == 1
  assert newest["workers/11/streams"] == 2
  assert newest["workers/11/items_lost"] == 1


def test_the_summary(tmp_path):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  status = status_at(
    9,
    500,
    60,
    evaluation=run_status.EvaluationStatus(mean_return=-math.inf),
    stopped_because="target_return",
    items_lost=5,
    learner={"loss": np.float32(0.5)},
    limits=run_status.Limits(target_return=475.0),
    replay=run_status.ReplayStatus(
      size=9, shards={0: table_status.TableStatus(size=9)}
    ),
    workers={3: run_status.WorkerStatus(env_steps=500)},
  )
  written.write_summary(status)
  written.close()
  summary = json.loads(folder.summary.read_text())
  assert summary["evaluation"]["mean_return"] is None
  assert summary["stopped_because"] == "target_return"
  assert (summary["env_steps"], summary["items_lost"]) == (500, 5)
  read = run_status.read_summary(folder)
  expected = {"evaluation": run_status.EvaluationStatus()}
  assert read == msgspec.structs.replace(status, **expected)
  assert not list(folder.path.glob(".summary*"))


def colours(pixels):
  return {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()}


RETURN, TARGET = (0x00, 0x72, 0xB2), (0x6B, 0x72, 0x80)


@pytest.mark.parametrize(
  ("evaluations", "target", "has_return", "has_target"),
  [
    (0, math.inf, False, False),
    (1, 475.0, True, True),
    (12, math.inf, True, False),
  ],
)
def test_the_picture_shows_return_and_target(
  tmp_path, evaluations, target, has_return, has_target
):
  folder = make_folder(tmp_path, target)
  written = results.Results(folder)
  for i in range(evaluations):
    status = status_at(40.0 * i + 40.0, 1000 * i + 1000, i)
    written.add_evaluation(
      results.make_evaluation(status, [2.0 * i, 3.0 * i], [9, 9], i)
    )
  written.draw_curves()
  written.close()
  picture = matplotlib.image.imread(folder.curves_png)[..., :3]
  pixels = np.round(255 * picture).astype(np.uint8)
  panels = pixels[:500]  # above the legend
  assert (RETURN in colours(panels)) == has_return
  assert (TARGET in colours(panels)) == has_target


@small_disk.needs_root
def test_a_full_disk_only_delays_writes(tmp_path):
  with small_disk.mounted(tmp_path / "disk", megabytes=64) as disk:
    folder = make_folder(disk)
    written = results.Results(folder)
    filler = small_disk.fill(disk)
    all_steps = []  # filled until no block is left for rows, either
    while "curves.csv" not in outbox.unwritten() or len(all_steps) < 9:
      steps = 100 * len(all_steps)
      all_steps.append(steps)
      status = status_at(steps / 10, steps, 0)
      written.add_metrics(status)
      written.add_evaluation(results.make_evaluation(status, [steps], [1], 1))
    written.write_summary(status)
    written.draw_curves()
    names = outbox.unwritten()
    assert "summary.json" in names
    with pytest.raises(OSError, match=r"is full, .* curves\.csv, .*free"):
      written.close()
    filler.unlink()
    written.draw_curves()
    written.close()
    assert [int(row["env_steps"]) for row in read_rows(folder)] == [*all_steps]
    means = read_scalars(folder)["evaluation/mean_return"]
    assert [at for at, _ in means] == [*all_steps]
    assert json.loads(folder.summary.read_text())["env_steps"] == steps
    assert folder.curves_png.exists()


def test_a_file_that_cannot_be_replaced(tmp_path):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  folder.summary.mkdir()
  with pytest.raises(OSError) as caught:
    written.write_summary(run_status.RunStatus())
  written.close()
  assert str(caught.value).startswith(repr(str(folder.summary)))
  assert not [entry for entry in folder.path.iterdir() if entry.name[0] == "."]


def test_no_heavy_import():
  code = (
    "import sys; from slipway.launch.display import panel; "
    "from slipway.launch.runs import results; "
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


def test_damaged_lines_of_the_curves_are_skipped(tmp_path, caplog):
  folder = make_folder(tmp_path)
  write_incarnation(folder, [100, 200, 300], {100, 200, 300})
  lines = folder.curves_csv.read_bytes().splitlines(keepends=True)
  garbage = [b"\xff\x00,\n", b"1,2\n", lines[1].replace(b"100", b"1e999")]
  lines[2:2] = garbage
  folder.curves_csv.write_bytes(b"".join(lines) + lines[1][:9])
  rows = curves.read(folder.curves_csv)
  assert rows["env_steps"].tolist() == [100, 200, 300]
  assert "has 4 damaged lines" in caplog.text
  results.Results(folder, env_steps=200).close()


def test_the_config_is_text_and_hyperparameters(tmp_path):
  folder = make_folder(tmp_path)
  written = results.Results(folder)
  config = dqn.get_config()
  config.limits.target_return = math.inf
  config.replay.capacity = 50_000
  written.write_config(config)
  written.close()
  reader = event_accumulator.EventAccumulator(str(folder.events))
  reader.Reload()
  (event,) = reader.Tensors("config")
  (table,) = event.tensor_proto.string_val
  assert b"| replay.capacity | `50000` |" in table
  assert b"| limits.target_return | `inf` |" in table
  content = reader.SummaryMetadata("_hparams_/session_start_info")
  found = metadata.parse_session_start_info_plugin_data(
    content.plugin_data.content
  ).hparams
  assert found["replay.capacity"].number_value == 50_000
  assert found["topology.proxy"].bool_value is True
  assert found["network.hidden_sizes"].string_value == "(64, 64)"
  # The plugin's JSON has no inf.
  assert found["limits.target_return"].string_value == "inf"
