"""The benchmark `scaling`, at a small scale, and what it reports as limit."""

import os

import psutil
import pytest

from benchmarks import tree
from benchmarks.scaling import measuring, one_run

pytestmark = pytest.mark.timeout(240)
_SMALL = (
  "--config.topology.environments_per_worker=2",
  "--config.evaluation.episodes=1",
)


@pytest.mark.benchmarks
def test_a_run_is_measured_by_role(tmp_path):
  report = measuring.measure(
    1, tmp_path, workers=(2,), seconds=2.0, overrides=_SMALL
  )
  (row,) = report.raw
  assert (row["repetition"], row["workers"]) == (0, 2)
  assert row["env_steps_per_s"] > 0
  assert row["trainer_steps_per_s"] > 0
  assert row["samples_per_insert"] > 0
  assert row["import_s"] > 0
  assert row["start_up_s"] > 0
  parts = [f"{role}_pss_mb" for role in one_run.ROLES]
  # The roles add up to the tree: no process has two roles, or an unknown one.
  assert sum(row[part] for part in parts) == pytest.approx(row["tree_pss_mb"])
  assert all(row[part] > 1.0 for part in parts)
  # The memory of both workers is above the private memory of one.
  assert row["worker_pss_mb"] > row["worker_private_mb"] > 1.0
  assert row["tree_private_mb"] < row["tree_pss_mb"]
  assert 0 < row["trainer_cores"] < row["cores"]
  assert len(report.goals) == 2  # the third goal is for 4 workers
  assert (tmp_path / "scaling.png").stat().st_size > 10_000
  report.write(tmp_path, {"commit": "none"})
  assert "| all workers |" in (tmp_path / "scaling.md").read_text()


def _row(repetition, workers, **values):
  zeros = {f"{role}_cores": 0.0 for role in one_run.ROLES}
  return {
    "repetition": repetition,
    "workers": workers,
    "cores": 0.5,
    "others_cores": 0.0,
    **zeros,
    **values,
  }


@pytest.mark.parametrize(
  ("workers", "values", "limit"),
  [
    (4, {"cores": 1.9}, "the 2 cores"),
    (
      4,
      {"cores": 1.0, "others_cores": 0.95},
      "the 2 cores, of which others took 0.9",
    ),
    (4, {"trainer_cores": 0.95}, "the trainer"),
    (2, {"worker_cores": 1.6}, "no process: they wait for one another"),
    (1, {"worker_cores": 0.95}, "the workers"),
    (1, {"proxy_cores": 0.95}, "the proxy"),
    (1, {}, "no process: they wait for one another"),
  ],
)
def test_the_limit_of_a_run_is_named(workers, values, limit, monkeypatch):
  monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
  # The row of another number of workers has no effect.
  rows = [_row(0, workers, **values), _row(0, 8, cores=0.0)]
  assert measuring._limit(rows, workers) == limit


def test_members_have_their_roles():
  me = psutil.Process()
  (found, *_) = tree.members(me.pid, {"worker/0": 1})
  assert found.role == tree.LAUNCHER
  assert 0 < found.private_mb <= found.pss_mb
  assert found.pss_mb <= me.memory_info().rss / 1e6
  assert tree.cpu_s([found, found])[tree.LAUNCHER] == 2 * found.cpu_s
