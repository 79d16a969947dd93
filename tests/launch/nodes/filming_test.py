"""Tests of filming: videos of evaluations, and runs that they don't change."""

import imageio
import psutil
import pytest

from slipway.configs import dqn
from slipway.launch.nodes import filming
from slipway.launch.runs import best_variables, events, outbox, run_folder
from slipway.replay.variables import variable_packing
from tests import polling
from tests.launch import saved, small_disk


@pytest.fixture
def config():
  """Returns a config whose second evaluation after each video is filmed."""
  config = dqn.get_config()
  config.environment.time_limit = 4
  config.evaluation.video_period = 2
  return config


@pytest.fixture
def folder(config, tmp_path):
  """Returns the folder of a run with untrained variables."""
  return saved.write_run(config, tmp_path / "runs")


def film(filmer, folder, version):
  _, variables = best_variables.load(folder.best)
  filmer.film(variable_packing.VersionedVariables(version, 0.0, variables))


def list_children():
  return {*psutil.Process().children()}


def is_filming(earlier):
  """Returns whether a process runs that is not among earlier ones."""
  processes = list_children() - earlier
  return any(x.status() != psutil.STATUS_ZOMBIE for x in processes)


def wait_for_children(earlier):
  polling.wait_until(lambda: not is_filming(earlier), timeout_s=100)


def list_videos(folder):
  return sorted(path.name for path in folder.videos.glob("*.mp4"))


def test_each_second_evaluation_has_a_video(config, folder):
  filmer, earlier = filming.Filmer(config, folder), list_children()
  film(filmer, folder, 3)
  name = "evaluation-version-00000003.mp4"
  polling.wait_until(lambda: list_videos(folder) == [name], timeout_s=100)
  with imageio.get_reader(folder.videos / name) as reader:
    assert reader.count_frames() == 5
  wait_for_children(earlier)
  (file,) = (folder.events / "videos").iterdir()
  *_, (event, _) = events.read_events(file)
  (value,) = event.summary.value
  assert event.step == 3
  assert value.image.encoded_image_string.startswith(b"GIF")
  assert (value.image.width, value.image.height) == (160, 106)
  for version in (4, 5):
    wait_for_children(earlier)
    film(filmer, folder, version)
    assert (version == 5) == is_filming(earlier)
  filmer.close()
  assert not (folder.logs / "videos").read_text()


def test_a_failed_video_is_reported(config, folder, caplog):
  filmer, earlier = filming.Filmer(config, folder), list_children()
  folder.config.write_text("{")
  film(filmer, folder, 3)
  wait_for_children(earlier)
  filmer.close()
  assert "the last video failed" in caplog.text
  assert "config.json" in (folder.logs / "videos").read_text()


def test_without_a_period_nothing_is_filmed(config, folder):
  config.evaluation.video_period = 0
  filmer = filming.Filmer(config, folder)
  film(filmer, folder, 3)
  filmer.close()
  assert not list(folder.videos.iterdir())


def test_the_newest_20_videos_are_kept(folder):
  kept = folder.videos / "version-1.mp4"  # one of `slipway play`
  kept.touch()
  for version in range(20):
    (folder.videos / f"evaluation-version-{version:08}.mp4").touch()
  path = folder.videos / "evaluation-version-00000020.mp4"
  filming.main(["filming", str(path), str(folder.best)])
  videos = list_videos(folder)
  assert len(videos) == 21
  assert videos[0] == "evaluation-version-00000001.mp4"
  assert path.exists() and kept.exists()


def test_a_video_that_is_dropped_leaves_no_file(config, folder, caplog):
  filmer, earlier = filming.Filmer(config, folder), list_children()
  film(filmer, folder, 3)
  (process,) = list_children() - earlier
  partial = folder.videos / ".evaluation-version-00000003.mp4-partial"
  partial.mkdir()
  (partial / "evaluation-version-00000003.mp4").touch()
  process.kill()
  filmer.close()
  assert "the last video was not finished" in caplog.text
  assert not list(folder.videos.iterdir())


@small_disk.needs_root
def test_a_full_disk_drops_a_video(config, folder, tmp_path, caplog):
  with small_disk.mounted(tmp_path / "disk", megabytes=1) as disk:
    full = run_folder.RunFolder(disk)
    full.make_subfolders()
    small_disk.fill(disk)
    filmer = filming.Filmer(config, full)
    _, variables = best_variables.load(folder.best)
    filmer.film(variable_packing.VersionedVariables(3, 0.0, variables))
    assert "no video of version 3" in caplog.text
    assert outbox.unwritten() == []
    filmer.close()
    assert not list(full.videos.iterdir())
