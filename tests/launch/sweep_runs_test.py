"""Tests of a sweep's results and exit status, with simulated runs."""

import csv
import json
import os
import pty
import signal
import subprocess
import sys

import msgspec
import pytest

from slipway.launch.runs import run_status, run_summary
from tests import polling

# Trains a sweep of one setting, whose runs end with argv[2] as exit status once
# the file 'end' exists, or after argv[3] stops; argv[1] is their summary.json.
# argv[4] has changes of the plan.
_SCRIPT = """
import json, pathlib, signal, sys
from slipway.launch import sweep_runs
from slipway.launch.display import standard_streams
from slipway.launch.runs import manifest
from slipway.launch.sweeps import sweep_folder

class Run:
  def __init__(self, run):
    self.run, self.log_start, self._stops = run, 0, 0
    starts = pathlib.Path("starts")
    if starts.exists() and pathlib.Path("full").exists():
      raise OSError("the disk is full")
    with starts.open("a") as file:
      file.write(f"{run.can_resume()}\\n")
    if pathlib.Path("hasty").exists():  # the user, who stops at the first sign
      signal.raise_signal(signal.SIGINT)

  def poll(self):
    if self._stops < int(sys.argv[3]) and not pathlib.Path("end").exists():
      return None
    self.run.folder.path.mkdir(exist_ok=True)
    self.run.folder.config.touch()
    snapshot = self.run.folder.snapshots / "000001"
    if not snapshot.exists():
      snapshot.mkdir(parents=True)
      manifest.write(snapshot)
    self.run.folder.summary.write_text(sys.argv[1])
    return int(sys.argv[2])

  def stop(self):
    self._stops += 1
    with pathlib.Path("stops").open("a") as file:
      file.write("stop\\n")
    if pathlib.Path("impatient").exists():  # the user, who repeats the Ctrl-C
      signal.raise_signal(signal.SIGINT)

folder = sweep_folder.SweepFolder(pathlib.Path("."))
plan = sweep_folder.Plan(**{
  "flags": ["--config=apex_dqn:cartpole", "--config.limits.trainer_steps=5"],
  "working_folder": ".", "vary": [], "search": "grid", "search_seed": 0,
  "max_settings": 1, "seeds": [1], "settings": [{}], "at_once": 1,
  **json.loads(sys.argv[4]),
})
sweep = sweep_runs.Sweep(folder, plan, lambda: plan.at_once, Run)
standard_streams.exit_process(sweep.train())
"""


def summary(stopped_because, trainer_steps):
  status = run_status.RunStatus(
    stopped_because=stopped_because, trainer_steps=trainer_steps
  )
  content = run_summary.RunSummary.from_status(status)
  return msgspec.json.encode(content).decode()


def start(folder, content, status, stops=1, plan=None, **streams):
  words = (content, f"{status}", f"{stops}", json.dumps(plan or {}))
  return subprocess.Popen(
    [sys.executable, "-c", _SCRIPT, *words],
    cwd=folder,
    start_new_session=True,
    **streams,
  )


def read_done(folder):
  """Returns how many runs have ended, as the results show it."""
  with (folder / "settings.csv").open(newline="") as file:
    return [row["done"] for row in csv.DictReader(file)]


# why the run stopped, its trainer steps, its exit status, exit status of the
# sweep, runs that have ended at a limit, and whether a second sweep resumes,
# begins or skips the run
ENDS = [
  ("wall_clock_s", 5, 0, 0, "1", "skips"),
  ("wall_clock_s", 0, 1, 1, "0", "begins"),
  ("SIGTERM", 5, 0, 1, "0", "resumes"),
]


@pytest.mark.parametrize(
  ("reason", "steps", "status", "sweep_status", "done", "again"), ENDS
)
def test_a_run_that_has_not_ended_at_a_limit_is_tried_again(
  tmp_path, reason, steps, status, sweep_status, done, again
):
  (tmp_path / "end").touch()
  content = summary(reason, steps)
  for _ in range(2):
    process = start(tmp_path, content, status)
    assert process.wait() == sweep_status
    assert read_done(tmp_path) == [done]
  starts = (tmp_path / "starts").read_text().split()
  expected = {"skips": [], "begins": ["False"], "resumes": ["True"]}[again]
  assert starts == ["False", *expected]


@pytest.mark.parametrize("hangs_up", [True, False])
def test_results_are_written_after_the_terminal_is_closed(tmp_path, hangs_up):
  terminal, stream = pty.openpty()
  process = start(
    tmp_path, summary("trainer_steps", 5), 0,
    stdin=stream, stdout=stream, stderr=stream,
  )  # fmt: skip
  os.close(stream)
  polling.wait_until(lambda: (tmp_path / "starts").exists())
  os.close(terminal)
  if hangs_up:
    process.send_signal(signal.SIGHUP)
  else:  # as with `nohup`
    (tmp_path / "end").touch()
  process.wait(60)
  assert read_done(tmp_path) == ["1"]
  assert (tmp_path / "runs.csv").exists()


def count_stops(folder):
  path = folder / "stops"
  return len(path.read_text().splitlines()) if path.exists() else 0


def test_only_a_second_ctrl_c_kills_the_runs(tmp_path):
  process = start(tmp_path, summary("SIGINT", 5), 0, stops=2)
  polling.wait_until(lambda: (tmp_path / "starts").exists())
  process.send_signal(signal.SIGINT)
  polling.wait_until(lambda: count_stops(tmp_path))
  # As a terminal that is closed, and a batch system, send them.
  process.send_signal(signal.SIGHUP)
  process.send_signal(signal.SIGTERM)
  with pytest.raises(subprocess.TimeoutExpired):
    process.wait(1)
  assert count_stops(tmp_path) == 1
  process.send_signal(signal.SIGINT)
  assert process.wait(60) == 1
  assert count_stops(tmp_path) == 2
  assert read_done(tmp_path) == ["0"]


def test_a_ctrl_c_while_a_run_is_started_stops_that_run(tmp_path):
  (tmp_path / "hasty").touch()
  process = start(tmp_path, summary("SIGINT", 5), 0)
  assert process.wait(60) == 1
  assert count_stops(tmp_path) == 1


def test_results_are_written_after_a_ctrl_c_while_runs_are_stopped(tmp_path):
  (tmp_path / "impatient").touch()
  process = start(tmp_path, summary("SIGINT", 5), 0, stops=2)
  polling.wait_until(lambda: (tmp_path / "starts").exists())
  process.send_signal(signal.SIGTERM)
  assert process.wait(60) == 1
  assert read_done(tmp_path) == ["0"]


SEARCH = {
  "search": "random",
  "vary": ["learner.learning_rate=log:1e-4..1e-2"],
  "settings": [{"learner.learning_rate": "1e-3"}],
  "max_settings": 2,
}


@pytest.mark.parametrize(
  ("plan", "obstacle"), [({"seeds": [1, 2]}, "full"), (SEARCH, "sweep.json")]
)
def test_a_full_disk_delays_runs_and_stops_none(tmp_path, plan, obstacle):
  """A run's log, or the plan with a further setting, can't be written."""
  (tmp_path / obstacle).mkdir()
  process = start(
    tmp_path, summary("trainer_steps", 5), 0, plan={**plan, "at_once": 2},
    stdout=subprocess.PIPE, text=True,
  )  # fmt: skip
  lines = iter(process.stdout.readline, "")
  assert any("no further run is started for now" in line for line in lines)
  assert len((tmp_path / "starts").read_text().split()) == 1
  (tmp_path / obstacle).rmdir()
  polling.wait_until(
    lambda: len((tmp_path / "starts").read_text().split()) == 2
  )
  (tmp_path / "end").touch()
  rest, _ = process.communicate(timeout=60)
  assert process.returncode == 0
  assert "no further run" not in rest
  assert count_stops(tmp_path) == 0
  assert (obstacle == "sweep.json") == (tmp_path / "sweep.json").is_file()
