"""Tests of the command `slipway plot` on the folders of runs."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import figure

from slipway.configs import catalog
from slipway.launch.commands import cli
from slipway.launch.runs import comparison, curves, run_folder
from tests.launch import errors


@pytest.fixture
def make_run(tmp_path):
  def make(name, seed, returns, algorithm="dqn", updates=None, first=0):
    folder = run_folder.RunFolder(tmp_path / name)
    folder.path.mkdir(parents=True)
    config = catalog.algorithms()[algorithm].get_config()
    config.seed = seed
    folder.write_config(config)
    lines = [",".join(curves.COLUMNS)]
    for index, value in enumerate(returns, first):
      row = curves.Evaluation(
        wall_s=2.0 * index,
        env_steps=100 * index,
        trainer_steps=updates[index] if updates else 10 * index,
        eval_return=value,
      )
      cells = [getattr(row, name) for name in curves.COLUMNS]
      lines.append(",".join("" if x is None else str(x) for x in cells))
    folder.curves_csv.write_text("\n".join(lines) + "\n")
    return folder

  return make


def plot(*arguments):
  return cli.run(["slipway", "plot", *map(str, arguments)])


def test_a_run_without_environment_steps_is_compared_by_updates(make_run):
  run = make_run("a", 1, [0.0] * 10 + [500.0] * 11)
  rows = run.curves_csv.read_text().splitlines()
  cells = [row.split(",") for row in rows]
  for row in cells[1:]:
    row[curves.COLUMNS.index("env_steps")] = "0"
  run.curves_csv.write_text("".join(",".join(row) + "\n" for row in cells))
  (group,) = comparison.read([run])
  np.testing.assert_array_equal(group.final_returns, [500.0])


def test_runs_that_differ_only_in_the_seed_are_one_group(make_run):
  runs = [
    make_run("a", 1, [0.0, 10.0]),
    make_run("b", 1, [5.0] * 12, "ppo"),
    make_run("c", 2, [20.0, 30.0]),
  ]
  first, second = comparison.read(runs)
  assert first.name == "a (2 seeds)"
  np.testing.assert_array_equal(first.final_returns, [10.0, 30.0])
  assert second.name == "b"
  np.testing.assert_array_equal(second.final_returns, [5.0])


def test_the_picture_and_its_lines(make_run, tmp_path, capsys):
  runs = [
    make_run(str(seed), seed, [seed, *range(1, 30)]).path for seed in range(3)
  ]
  runs.append(make_run("other", 1, [9.0] * 4, "ppo").path)
  output = tmp_path / "out.png"
  assert plot(*runs, "--output", output) == 0
  assert output.read_bytes().startswith(b"\x89PNG")
  assert output.stat().st_size > 10_000
  assert capsys.readouterr().out.splitlines() == [
    # That of the evaluations at 2,700 steps and later.
    "0 (3 seeds): final return 28.00 (95 % interval 28.00 to 28.00)",
    "other: final return 9.00",
    f"picture: {output}",
  ]


def test_a_run_that_is_given_twice_counts_once(make_run, tmp_path):
  run = make_run("a", 1, [0.0, 10.0])
  (tmp_path / "link").symlink_to(run.path)
  link = run_folder.RunFolder(tmp_path / "link")
  (group,) = comparison.read([run, link, make_run("b", 2, [1.0])])
  assert group.name == "a (2 seeds)"
  assert len(group.curves) == 2


def test_the_legend_has_all_names(make_run):
  groups = comparison.read(
    [make_run("_a", 1, [1.0, 2.0]), make_run("b", 1, [5.0, 3.0], "ppo")]
  )
  picture = figure.Figure(layout="constrained")
  comparison.draw_panels(picture, groups)
  (legend,) = picture.legends
  assert [x.get_text() for x in legend.get_texts()] == ["_a", "b"]


def draw_lines(groups, panel):
  """Returns [N, 2] points per line of a panel of a picture of groups."""
  picture = figure.Figure(layout="constrained")
  comparison.draw_panels(picture, groups)
  return [x.get_xydata() for x in picture.axes[panel].get_lines()]


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_line_never_runs_backwards(make_run, seeds):
  # The trainer has been restarted from a snapshot of 1,600 updates.
  updates = [1_000, 3_000, 1_600, 4_000]
  returns = [0.0, 1.0, 2.0, 3.0]
  runs = [
    make_run(str(seed), seed, returns, updates=updates) for seed in range(seeds)
  ]
  (line,) = draw_lines(comparison.read(runs), panel=1)
  at, mean = line.T
  assert (np.diff(at) >= 0).all()
  before, after = at < 3_000, at > 3_000
  np.testing.assert_allclose(mean[before], (at[before] - 1_000) / 2_000)
  np.testing.assert_allclose(mean[after], 2 + (at[after] - 3_000) / 1_000)


def test_seeds_without_a_common_range_are_drawn_by_their_points(make_run):
  runs = [
    make_run("a", 1, [1.0, 2.0]),
    make_run("b", 2, [3.0, 4.0], first=5),
  ]
  for panel in range(3):
    one, other = draw_lines(comparison.read(runs), panel)
    np.testing.assert_array_equal(one[:, 1], [1.0, 2.0])
    np.testing.assert_array_equal(other[:, 1], [3.0, 4.0])


def test_groups_of_equal_names_have_their_paths(make_run, tmp_path):
  groups = comparison.read(
    [
      make_run("a/0-1", 1, [1.0]),
      make_run("a/0-2", 2, [1.0]),
      make_run("b/0-1", 1, [5.0], "ppo"),
      make_run("b/1-1", 1, [5.0], "a2c"),
    ]
  )
  assert [group.name for group in groups] == [
    f"{tmp_path}/a/0-1 (2 seeds)",
    f"{tmp_path}/b/0-1",
    "1-1",
  ]


@pytest.mark.parametrize(
  ("name", "begin"),
  [("x.png", b"\x89PNG"), ("x.pdf", b"%PDF"), ("x.SVG", b"<?xml")],
)
def test_the_format_is_that_of_the_name(make_run, tmp_path, name, begin):
  run = make_run("a", 1, [1.0, 2.0]).path
  assert plot(run, f"--output={tmp_path / name}") == 0
  assert (tmp_path / name).read_bytes().startswith(begin)


def test_settings_of_matplotlib_break_no_picture(make_run, tmp_path):
  run = make_run("a", 1, [1.0, 2.0]).path
  (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
  done = subprocess.run(
    [sys.executable, "-m", "slipway.launch.commands.cli", "plot", str(run)],
    cwd=tmp_path,
    env={**os.environ, "MPLBACKEND": "module://of_a_notebook"},
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr


def test_only_a_file_at_a_given_path_is_replaced(
  make_run, tmp_path, monkeypatch, capsys
):
  run = make_run("a", 1, [1.0, 2.0]).path
  monkeypatch.chdir(tmp_path)
  (tmp_path / "comparison.png").write_text("of the user")
  for name in ("comparison-2.png", "comparison-3.png"):
    assert plot(run) == 0
    assert capsys.readouterr().out.endswith(f"picture: {name}\n")
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
  assert (tmp_path / "comparison.png").read_text() == "of the user"
  assert plot(run, "--output=comparison.png") == 0
  assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_what_can_not_be_plotted_prints_one_line(make_run, tmp_path, capsys):
  whole = make_run("whole", 1, [1.0]).path
  empty = make_run("empty", 1, []).path
  starting = make_run("starting", 1, [])
  starting.curves_csv.unlink()
  folder = tmp_path / "folder.png"
  folder.mkdir()
  for arguments, words in (
    ([], "no run is given"),
    ([tmp_path / "none"], "is not a run"),
    ([whole, empty], "has no evaluation yet"),
    ([whole, starting.path], "has no evaluation yet"),
    ([whole, "--outptu=x"], "did you mean --output"),
    ([whole, f"--output={folder}"], "can't be written"),
    ([whole, "--output=x.jpg"], "--output=x.jpg"),
    ([whole, "--output=x"], ".png, .pdf or .svg"),
  ):
    assert plot(*arguments) == 2
    errors.check_printed(capsys, "plot: ", words)


def test_an_interrupt_prints_one_line(make_run, monkeypatch, capsys):
  folder = make_run("whole", 1, [1.0])
  # In case a shell that runs the tests in the background ignores SIGINT.
  monkeypatch.setattr(
    comparison,
    "read",
    lambda folders: signal.default_int_handler(signal.SIGINT, None),
  )
  assert cli.run(["slipway", "plot", str(folder.path)]) == 1
  assert capsys.readouterr().err == "plot: interrupted\n"
