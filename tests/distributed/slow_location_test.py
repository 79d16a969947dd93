"""The last snapshot of a run whose shared store is slow."""

import os
import pathlib
import signal

import pytest

# The module that each Python process of the run imports at its start. Its
# protocol is that of local files, but each file of a snapshot takes a while.
_SLOW_FILES = """
import os
import time

import fsspec
from fsspec.implementations import local


class SlowFiles(local.LocalFileSystem):
  protocol = "slow"

  @classmethod
  def _strip_protocol(cls, path):
    return super()._strip_protocol(path.removeprefix("slow://here"))

  def put_file(self, lpath, rpath, **kwargs):
    if "/snapshots/0" in rpath:
      time.sleep(float(os.environ["SLOW_FILES_S"]))
    return super().put_file(lpath, rpath, **kwargs)


fsspec.register_implementation("slow", SlowFiles, clobber=True)
"""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.fixture
def start_slow(start_run, tmp_path, monkeypatch):
  """Returns a function that starts a run with a slow store."""
  folder = tmp_path / "slow"
  folder.mkdir()
  (folder / "sitecustomize.py").write_text(_SLOW_FILES)
  before = os.environ.get("PYTHONPATH")
  path = os.pathsep.join([str(folder), *([before] if before else [])])
  monkeypatch.setenv("PYTHONPATH", path)

  def start(file_s, *flags):
    monkeypatch.setenv("SLOW_FILES_S", str(file_s))
    return start_run(
      f"--config.snapshot.url=slow://here{tmp_path}/store", *flags
    )

  return start


MODES = pytest.mark.parametrize("mode", ["async", "single"])
_LIMIT = "--config.limits.trainer_steps=100"


@MODES
def test_a_run_at_its_limit_waits_for_the_upload(start_slow, tmp_path, mode):
  # Each of the snapshot's files takes as long as all may take after a signal.
  run = start_slow(4.0, _LIMIT, f"--mode={mode}")
  assert run.wait() == 0, run.stderr
  run.check_nothing_left()
  (manifest,) = pathlib.Path(tmp_path).glob("store/a-run/snapshots/0*/manif*")
  assert manifest.stat().st_size
  assert "waits for the last snapshot to be saved" in run.stdout
  assert run.summary["stopped_because"] == "trainer_steps"
  assert run.summary["snapshots"]["upload_failures"] == 0


@MODES
def test_a_signal_ends_the_wait_for_the_upload(start_slow, mode):
  run = start_slow(1_000.0, _LIMIT, f"--mode={mode}")
  run.wait_until(lambda: "last snapshot to be saved" in run.stdout)
  run.launcher.send_signal(signal.SIGTERM)
  assert run.wait() == 1, run.stderr
  run.check_nothing_left()
  log = run.stderr if mode == "single" else run.log("trainer/0")
  assert "was not uploaded" in log
  assert "train: the last snapshot" in run.stderr
  assert list((run.path / "snapshots").glob("0*"))
  assert run.summary["stopped_because"] == "trainer_steps"
