"""The benchmarks of whole runs, at a small scale: programs with one worker."""

import csv
import dataclasses
import subprocess
import sys

import psutil
import pytest

from benchmarks import machine, pong, solving, whole_run
from tests import polling

_SMALL = (
  "--config.topology.workers=1",
  "--config.topology.environments_per_worker=2",
  "--config.evaluation.episodes=1",
)


@pytest.mark.benchmarks
def test_cartpole_runs_each_seed_and_draws_them(tmp_path):
  # The first evaluation reaches this return, so it ends the run.
  easy = (
    *_SMALL,
    "--config.limits.target_return=1.0",
    "--config.limits.target_evaluations=1",
  )
  task = dataclasses.replace(solving.CARTPOLE, limit_s=60.0)
  report = solving.measure(task, 1, tmp_path, easy)
  (row,) = report.raw
  assert row["seed"] == 1
  assert row["start_up_s"] is None or row["start_up_s"] <= row["wall_s"]
  assert row["env_steps"] > 0
  assert not row["solved"]  # the goal is still the config's return
  assert (tmp_path / "cartpole.png").stat().st_size > 10_000
  report.write(tmp_path, {"commit": "none"})
  lines = (tmp_path / "cartpole.csv").read_text().splitlines()
  assert lines[0] == "# commit: none"
  assert next(csv.DictReader(lines[1:]))["seed"] == "1"
  assert "not reached" in (tmp_path / "cartpole.md").read_text()


@pytest.mark.benchmarks
def test_pong_measures_the_worker_and_the_program():
  report = pong.measure(
    runs=1,
    steps=40,
    limit_s=0.0,
    min_size=40,
    overrides=(*_SMALL, "--config.limits.environment_steps=100"),
  )
  values = {
    (row["part"], row["quantity"]): row["value"] for row in report.medians
  }
  assert values["worker", "env_steps_per_s"] > 0
  assert values["program", "env_steps"] >= 100
  assert values["program", "processes"] >= 2
  assert values["program", "memory_mean_mib"] > 0
  assert (
    values["program", "memory_mean_mib"]
    <= (values["program", "memory_peak_mib"])
  )


def test_a_rejected_run_is_reported_with_its_error(tmp_path):
  with pytest.raises(RuntimeError, match=r"status 2: .*no_such_field"):
    whole_run.run(
      "apex_dqn:cartpole",
      ["--config.no_such_field=1"],
      1.0,
      tmp_path,
      "refused",
    )


@pytest.mark.runs
def test_a_run_that_the_time_limit_ends_is_an_error(tmp_path):
  flags = ("--mode=single", "--config.limits.target_return=inf")
  with pytest.raises(RuntimeError, match=r"limit of 20.0 s after .* steps"):
    whole_run.run("dqn:cartpole", flags, 20.0, tmp_path, "cut_off")


_ENDLESS = """
import pathlib, sys
from benchmarks import whole_run

flags = ["--mode=single", "--config.limits.target_return=inf"]
whole_run.run("dqn:cartpole", flags, 600.0, pathlib.Path(sys.argv[1]), "run")
"""


@pytest.mark.runs
def test_a_run_stops_if_its_benchmark_is_killed(tmp_path):
  command = [sys.executable, "-c", _ENDLESS, str(tmp_path)]
  with subprocess.Popen(command, cwd=machine.ROOT) as benchmark:
    output = tmp_path / "run.txt"
    polling.wait_until(lambda: "environment " in output.read_text())
    (run,) = psutil.Process(benchmark.pid).children()
    benchmark.kill()
  run.wait(60.0)
  assert "stopped: SIGTERM" in output.read_text()
