"""Tests of a sweep's results and exit status, with simulated runs."""

import csv
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.control import messages
from slipway.launch.runs import records, run_folder, run_status
from slipway.launch.runs import run as run_lib
from tests import polling
from tests.launch import controlled
from tests.launch.sweeps import given

# Trains a sweep, whose runs end with argv[2] as their error, or without one,
# once the file 'end' exists, or after argv[3] stops; argv[1] is their
# summary.json.
_SCRIPT = """
import pathlib, signal, sys
from slipway.launch.display import standard_streams
from slipway.launch.runs import manifest
from slipway.launch.sweeps import schedule, study

class Run:
  def __init__(self, run):
    self.run, self._stops = run, 0
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
    return sys.argv[2]

  def stop(self):
    self._stops += 1
    with pathlib.Path("stops").open("a") as file:
      file.write("stop\\n")
    if pathlib.Path("impatient").exists():  # the user, who repeats the Ctrl-C
      signal.raise_signal(signal.SIGINT)

sweep = study.Study(pathlib.Path().absolute(), None)
trains = schedule.Schedule(sweep, lambda: sweep.plan.flags.at_once, Run)
standard_streams.exit_process(trains.train())
"""


def summary(stopped_because, trainer_steps):
  status = run_status.RunStatus(
    stopped_because=stopped_because, trainer_steps=trainer_steps
  )
  return records.to_json(status).decode()


def start(folder, content, error="", stops=1, plan=(), **streams):
  if not (folder / "journal.log").exists():
    given.make_sweep(folder, [], "--at_once=1", *plan)
  words = (content, error, f"{stops}")
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


# why the run stopped, its trainer steps, its error, exit status of the sweep,
# runs that have ended at a limit, and whether a second sweep resumes,
# begins or skips the run
ENDS = [
  ("wall_clock_s", 5, "", 0, "1", "skips"),
  ("wall_clock_s", 0, "no update", 1, "0", "begins"),
  ("SIGTERM", 5, "", 1, "0", "resumes"),
]


@pytest.mark.parametrize(
  ("reason", "steps", "error", "status", "done", "again"), ENDS
)
def test_a_run_that_has_not_ended_at_a_limit_is_tried_again(
  tmp_path, reason, steps, error, status, done, again
):
  (tmp_path / "end").touch()
  content = summary(reason, steps)
  for _ in range(2):
    process = start(tmp_path, content, error)
    assert process.wait() == status
    assert read_done(tmp_path) == [done]
  starts = (tmp_path / "starts").read_text().split()
  expected = {"skips": [], "begins": ["False"], "resumes": ["True"]}[again]
  assert starts == ["False", *expected]


@pytest.mark.parametrize("hangs_up", [True, False])
def test_results_are_written_after_the_terminal_is_closed(tmp_path, hangs_up):
  terminal, stream = pty.openpty()
  process = start(
    tmp_path, summary("trainer_steps", 5),
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
  process = start(tmp_path, summary("SIGINT", 5), stops=2)
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
  process = start(tmp_path, summary("SIGINT", 5))
  assert process.wait(60) == 1
  assert count_stops(tmp_path) == 1


def test_results_are_written_after_a_ctrl_c_while_runs_are_stopped(tmp_path):
  (tmp_path / "impatient").touch()
  process = start(tmp_path, summary("SIGINT", 5), stops=2)
  polling.wait_until(lambda: (tmp_path / "starts").exists())
  process.send_signal(signal.SIGTERM)
  assert process.wait(60) == 1
  assert read_done(tmp_path) == ["0"]


def count_starts(folder):
  path = folder / "starts"
  return len(path.read_text().split()) if path.exists() else 0


def test_a_full_disk_delays_runs_and_stops_none(tmp_path):
  """A run's log can't be written."""
  (tmp_path / "full").touch()
  process = start(
    tmp_path, summary("trainer_steps", 5), plan=["--seeds=2", "--at_once=2"],
    stdout=subprocess.PIPE, text=True,
  )  # fmt: skip
  lines = iter(process.stdout.readline, "")
  assert any("no further run is started for now" in line for line in lines)
  assert count_starts(tmp_path) == 1
  (tmp_path / "full").unlink()
  polling.wait_until(lambda: count_starts(tmp_path) == 2)
  (tmp_path / "end").touch()
  rest, _ = process.communicate(timeout=60)
  assert process.returncode == 0
  assert "no further run" not in rest
  assert count_stops(tmp_path) == 0


def test_the_table_shows_steps_before_the_first_evaluation(tmp_path):
  terminal, stream = pty.openpty()
  process = start(tmp_path, summary("trainer_steps", 5), stdout=stream)
  polling.wait_until(lambda: (tmp_path / "starts").exists())
  config = dqn.get_config()
  folder = run_folder.RunFolder.create(tmp_path, "0-1", overwrite=False)
  folder.write_config(config)
  spec = factory.make_spec(config.environment)
  run = run_lib.Run(config, spec, folder, time.time())
  counts = run_status.NodeCounts(env_steps=1_234)
  report = messages.WorkerReport(counts=counts)
  with controlled.controlled(run, {"worker": 1}, str(tmp_path)) as controller:
    controller.control.report("worker", 0, report)
    shown = ""
    while "0-1 at 1,234 steps" not in shown:
      shown += os.read(terminal, 1_024).decode("utf-8", "replace")
    controller.control.stop("control")
  process.kill()
  process.wait()
  os.close(terminal)
  os.close(stream)


def test_a_setting_that_falls_behind_is_stopped(tmp_path):
  sweep = given.make_sweep(
    tmp_path,
    ["learner.learning_rate=1,2,3,4,5,6"],
    *("--prune", "--seeds=2", "--at_once=2"),
  )
  for index in range(5):
    assert not sweep.prune_if_behind(index, 1, 100.0)
    given.complete(sweep, index, 100.0)
    for run in sweep.list_runs(index):
      given.write_curves(run, [100.0, 100.0])
      given.write_summary(run, stopped_because="trainer_steps", trainer_steps=5)
  for run in sweep.list_runs(5):
    given.write_curves(run, [1.0, 1.0])
  process = start(tmp_path, summary("SIGINT", 5), stdout=subprocess.PIPE)
  output, _ = process.communicate(timeout=60)
  assert process.returncode == 0, output
  assert b"setting 5 falls behind" in output
  assert count_stops(tmp_path) == 2
  with (tmp_path / "settings.csv").open(newline="") as file:
    pruned = [row["pruned"] for row in csv.DictReader(file)]
  assert pruned == [*["False"] * 5, "True"]
