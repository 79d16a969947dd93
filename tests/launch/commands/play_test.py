"""Tests of `slipway play`: in a window without a screen, and to a file."""

import imageio
import pytest

from slipway.configs import dqn
from slipway.launch.commands import play
from tests.launch import errors, saved


@pytest.fixture
def run(tmp_path):
  """Returns the folder of a run with untrained variables."""
  config = dqn.get_config()
  config.environment.time_limit = 5
  return saved.write_run(config, tmp_path / "runs")


def test_a_window_follows_the_newest_policy(run, capsys, monkeypatch):
  monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
  assert play.main(["play", str(run.path), "--episodes=2"]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert [line.partition(":")[0] for line in lines] == [
    "episode 1, version 7",
    "episode 2, version 7",
  ]
  assert all("return 5.00" in line for line in lines)


def test_without_a_display_a_video_is_advised(run, capsys, monkeypatch):
  for variable in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
    monkeypatch.delenv(variable, raising=False)
  assert play.main(["play", f"--run={run.path}"]) == 2
  errors.check_printed(capsys, "no display", "DISPLAY", "--video")


def test_a_video_of_one_episode(run, capsys):
  assert play.main(["play", str(run.path), "--video"]) == 0
  assert "return 5.00" in capsys.readouterr().out
  (path,) = run.videos.iterdir()
  with imageio.get_reader(path) as reader:
    assert reader.count_frames() == 6


def test_a_video_that_cannot_be_written(run, capsys):
  run.videos.rmdir()
  run.videos.write_text("")  # a file in the place of the folder
  assert play.main(["play", str(run.path), "--video"]) == 2
  errors.check_printed(capsys, "videos' can't be written")


@pytest.mark.parametrize(
  ("flags", "words"),
  [
    (["--video", "--episodes=3"], ["--episodes=3", "no effect"]),
    (["--render"], ["did you mean --video?"]),
    (["more"], ["'more' is no flag"]),
  ],
)
def test_what_is_rejected(run, capsys, flags, words):
  assert play.main(["play", f"--run={run.path}", *flags]) == 2
  errors.check_printed(capsys, *words)
