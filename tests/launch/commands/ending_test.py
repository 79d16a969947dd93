"""Tests of the last lines of a run: its results, how to evaluate and resume."""

import contextlib
import math

import pytest

from slipway.configs import dqn
from slipway.launch.commands import ending
from slipway.launch.runs import records, run_folder, run_status
from tests.launch import errors


@pytest.fixture
def make_run(tmp_path):
  """Returns a function that makes an ended run's folder and config."""

  def make(
    because,
    best=True,
    snapshot=True,
    learned=9,
    written=1,
    late=False,
    uploaded=None,
    **limits,
  ):
    config = dqn.get_config()
    config.limits.target_return = math.inf
    config.limits.update(limits)
    folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
    folder.write_config(config)
    status = run_status.RunStatus(
      stopped_because=because,
      trainer_steps=learned,
      env_steps=50,
      episodes=7,
      wall_s=70.5,
      snapshots=run_status.SnapshotsStatus(
        written=written, late=late, uploaded=uploaded
      ),
    )
    folder.summary.write_bytes(records.to_json(status))
    if best:
      folder.best.write_bytes(b"")
    if snapshot:
      (folder.snapshots / "000001").mkdir()
    return folder, config

  return make


# Reason why the run ended, its limits, and the flag without which a resumed run
# would end at once.
RESUMES = [
  ("SIGINT", {"trainer_steps": 9}, ""),
  ("trainer_steps", {"trainer_steps": 9}, " --config.limits.trainer_steps=18"),
  ("target_return", {"target_return": 2.0},
   " --config.limits.target_return=inf"),
  ("target_info", {"target_info": "x:1"}, " --config.limits.target_info="),
  ("wall_clock_s", {"wall_clock_s": 60.0}, " --config.limits.wall_clock_s=120"),
  ("evaluations_without_improvement", {"evaluations_without_improvement": 4},
   " --config.limits.evaluations_without_improvement=8"),
  ("all_limits", {"episodes": 5, "trainer_steps": 9, "combine": "all"},
   " --config.limits.trainer_steps=18"),
  # The counters exceed the config's limits, which `slipway control set` raised.
  ("trainer_steps", {"trainer_steps": 2}, " --config.limits.trainer_steps=16"),
  ("environment_steps", {"environment_steps": 20},
   " --config.limits.environment_steps=80"),
  ("episodes", {"episodes": 5}, " --config.limits.episodes=10"),
  ("episodes", {}, ""),  # the limit was set by `slipway control set`
]  # fmt: skip


@pytest.mark.parametrize(("because", "limits", "flag"), RESUMES)
def test_the_last_lines(make_run, because, limits, flag):
  folder, config = make_run(because, **limits)
  results, evaluate, resume = ending.describe(folder, config, folder).split(
    "\n"
  )
  assert str(folder.path) in results and str(folder.events) in results
  assert evaluate == f"evaluate: slipway evaluate --run={folder.path}"
  assert resume == f"resume:   slipway train --resume={folder.path}{flag}"


def test_the_path_is_shown_as_it_was_given(make_run):
  folder, config = make_run("SIGINT")
  shown = run_folder.RunFolder("runs/a-run")
  for line in ending.describe(folder, config, shown).split("\n"):
    assert "runs/a-run" in line
    assert str(folder.path) not in line


def test_nothing_is_advised_that_can_not_be_done(make_run):
  folder, config = make_run("SIGINT", best=False, snapshot=False)
  assert len(ending.describe(folder, config, folder).split("\n")) == 1


LATE = {"written": 3, "late": True}
URL = {"written": 3, "url": "/shared"}
# reason of the end; what the run has done; part of the error, if there is one
ENDS = [
  ("wall_clock_s", {"learned": 0}, "wall_clock_s=1.0 had passed before"),
  ("wall_clock_s", {"learned": 1}, ""),
  ("environment_steps", {"learned": 0}, ""),
  ("SIGINT", {"learned": 0}, ""),
  ("trainer_steps", LATE, "continues from snapshot 3"),
  ("control", {**LATE, "written": 0}, "can't be resumed"),
  ("trainer_steps", {"written": 3}, ""),
  ("SIGTERM", LATE, ""),  # which leaves only seconds for it
  ("trainer_steps", URL, "3, was not uploaded to config.snapshot.url='/shared"),
  ("trainer_steps", {**URL, "uploaded": 2}, "3, was not uploaded"),
  ("trainer_steps", {**URL, "uploaded": 3}, ""),
  ("SIGTERM", {**URL, "uploaded": 2}, ""),
]


@pytest.mark.parametrize(("because", "done", "part"), ENDS)
def test_an_end_that_was_not_as_it_should_be(make_run, because, done, part):
  url = done.get("url", "")
  done = {name: x for name, x in done.items() if name != "url"}
  folder, config = make_run(because, wall_clock_s=1.0, **done)
  config.snapshot.url = url
  with contextlib.ExitStack() as expected:
    if part:
      expected.enter_context(errors.one_line(part, error=RuntimeError))
    ending.check(folder, config)
