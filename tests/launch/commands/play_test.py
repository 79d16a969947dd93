"""Tests of `slipway play`: in a window without a screen, and to a file."""

import imageio
import pygame
import pytest

from slipway.configs import dqn
from slipway.launch.commands import cli
from slipway.launch.display import window
from slipway.launch.nodes import filming
from tests.launch import errors, saved


@pytest.fixture
def run(tmp_path):
  """Returns the folder of a run with untrained variables."""
  config = dqn.get_config()
  config.environment.time_limit = 5
  return saved.write_run(config, tmp_path / "runs")


def test_a_window_is_played_in_until_it_is_closed(run, capsys, monkeypatch):
  monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
  shown = window.Window.show

  def show_and_close_later(self, *frame):
    # The user closes the window in the third episode of 6 frames.
    counted.append(frame)
    if len(counted) > 12:
      pygame.event.post(pygame.event.Event(pygame.QUIT))
    return shown(self, *frame)

  counted = []
  monkeypatch.setattr(window.Window, "show", show_and_close_later)
  assert cli.run(["slipway", "play", str(run.path)]) == 0
  line = "version 7: an episode with return 5.00"
  assert capsys.readouterr().out.splitlines() == [line, line]


def test_without_a_display_a_video_is_advised(run, capsys, monkeypatch):
  for variable in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
    monkeypatch.delenv(variable, raising=False)
  assert cli.run(["slipway", "play", str(run.path)]) == 2
  errors.check_printed(capsys, "no display", "DISPLAY", "--video")


def test_a_video_of_one_episode(run, capsys):
  assert cli.run(["slipway", "play", str(run.path), "--video"]) == 0
  assert "return 5.00" in capsys.readouterr().out
  (path,) = run.videos.iterdir()
  with imageio.get_reader(path) as reader:
    assert reader.count_frames() == 6


def test_a_video_of_a_part_of_an_episode_says_so(run, capsys, monkeypatch):
  monkeypatch.setattr(filming, "MAX_STEPS", 3)
  assert cli.run(["slipway", "play", str(run.path), "--video"]) == 0
  assert "the first 3 steps of an episode" in capsys.readouterr().out


def test_a_video_that_cannot_be_written(run, capsys):
  run.videos.rmdir()
  run.videos.write_text("")  # a file in the place of the folder
  assert cli.run(["slipway", "play", str(run.path), "--video"]) == 2
  errors.check_printed(capsys, "videos' can't be written")


@pytest.mark.parametrize(
  ("flags", "words"),
  [
    (["--render"], ["did you mean --video?"]),
    (["more"], ["2 runs are given"]),
  ],
)
def test_what_is_rejected(run, capsys, flags, words):
  assert cli.run(["slipway", "play", str(run.path), *flags]) == 2
  errors.check_printed(capsys, *words)
