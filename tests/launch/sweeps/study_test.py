"""Tests of a sweep's folder and memory, and of the states of its runs."""

import contextlib
import math
import os
import threading

import optuna
import pytest

from slipway.configs import dqn
from slipway.launch.runs import manifest, run_folder, run_lock
from slipway.launch.sweeps import runs as runs_lib
from slipway.launch.sweeps import space, study
from tests.launch import errors, small_disk
from tests.launch.sweeps import given

_STATES = optuna.trial.TrialState
_CHOICES = ["learner.learning_rate=1e-3,3e-3,1e-4,3e-4,1e-5,3e-5,1e-6"]


def read_states(sweep):
  return [trial.state for trial in sweep.trials]


def test_an_overwritten_sweep_is_deleted_once_its_runs_have_ended(tmp_path):
  path = tmp_path / "swept"
  path.mkdir()
  given.make_sweep(path, [])
  run = run_folder.RunFolder.create(path, "0-1", overwrite=False)
  run.config.write_text("{}")

  def create():
    with contextlib.ExitStack() as resources:
      study.Study.create(path, True, given.make_plan([]), resources)

  overwrite = threading.Thread(target=create)
  with run_lock.held(run):
    overwrite.start()
    overwrite.join(timeout=1.0)
    assert overwrite.is_alive()
    assert run.is_run()
  overwrite.join(timeout=60.0)
  assert not overwrite.is_alive()
  assert {x.name for x in path.iterdir()} == {"journal.log", ".lock"}


def test_a_study_remembers_its_settings_and_scores(tmp_path):
  sweep = given.make_sweep(tmp_path, _CHOICES[:1])
  given.complete(sweep, 0, 3.0)
  given.complete(sweep, 0, 4.0)  # of seeds that a resume has added
  sweep.add({"learner.learning_rate": "1e-4"}, "it can't be trained")
  again = study.Study(tmp_path, None)
  assert again.settings == sweep.settings
  assert again.trials[0].value == 3.0
  assert read_states(again)[:2] == [_STATES.COMPLETE, _STATES.RUNNING]
  assert again.list_errors() == ["it can't be trained"]
  assert len(again.read_configs()) == 7


@pytest.mark.parametrize("written", [b"", b"{", b'{"op_code":6,"trial_id":0}'])
def test_a_half_written_line_is_cut(tmp_path, written):
  sweep = given.make_sweep(tmp_path, _CHOICES)
  with (tmp_path / "journal.log").open("ab") as file:
    file.write(written)
  sweep = study.Study(tmp_path, None)
  given.complete(sweep, 0, 1.0)
  sweep = study.Study(tmp_path, None)
  assert read_states(sweep).count(_STATES.COMPLETE) == 1


@small_disk.needs_root
def test_a_full_disk_damages_no_journal(tmp_path):
  with small_disk.mounted(tmp_path / "disk", megabytes=1) as path:
    sweep = given.make_sweep(path, _CHOICES)
    filler = small_disk.fill(path)
    with pytest.raises(OSError, match="journal"):
      for _ in range(1_000):
        sweep.write_plan()
    filler.unlink()
    given.complete(sweep, 0, 1.0)
    again = study.Study(path, None)
    assert again.settings == sweep.settings
    assert again.trials[0].value == 1.0


@pytest.mark.parametrize("content", ["", "no journal\n"])
def test_a_damaged_journal_is_one_line(tmp_path, content):
  (tmp_path / "journal.log").write_text(content)
  with (
    contextlib.ExitStack() as resources,
    errors.one_line("can't be resumed"),
  ):
    study.Study.open(str(tmp_path), resources)


def test_a_setting_below_the_median_of_five_is_pruned(tmp_path):
  sweep = given.make_sweep(tmp_path, _CHOICES)
  for index in range(5):
    for step in (1, 2):
      assert not sweep.prune_if_behind(index, step, float(index * step))
    assert not sweep.prune_if_behind(index, 2, -100.0)  # only the first counts
    given.complete(sweep, index, float(index))
  assert not sweep.prune_if_behind(5, 1, 3.0)
  assert not sweep.prune_if_behind(6, 1, 2.0)
  assert sweep.prune_if_behind(6, 2, 3.0)
  assert [sweep.is_pruned(index) for index in (4, 5, 6)] == [0, 0, 1]
  assert study.Study(tmp_path, None).is_pruned(6)


def _score(setting):
  """Returns a score: the maximum is at a rate of 1e-3, with priorities."""
  distance = abs(math.log10(float(setting["learner.learning_rate"])) + 3)
  return -distance - 2 * (setting["replay.sampler"] == "uniform")


def test_tpe_finds_better_settings_than_random_sampling(tmp_path):
  vary = [
    "learner.learning_rate=log:1e-6..1.0",
    "replay.sampler=uniform,prioritized",
    "learner.batch_size=1..512",
  ]
  sweep = given.make_sweep(tmp_path, vary, "--search=tpe")
  axes = sweep.plan.axes
  while len(sweep.trials) < 50:
    given.complete(sweep, len(sweep.trials) - 1, _score(sweep.settings[-1]))
    sweep.add(space.sample_promising(axes, 1, sweep.trials), dqn.get_config())
  found = [_score(setting) for setting in sweep.settings]
  sampled = [
    _score(space.to_setting(axes, params))
    for params in space.sample_different(axes, 50, 1)
  ]
  assert sum(found[25:]) > sum(sampled[25:]) + 12


def test_a_run_continues_from_complete_snapshots_only(tmp_path):
  """A full disk, or a kill, may have left a part of one."""
  run = runs_lib.SweepRun(tmp_path, 0, 1)
  made = run_folder.RunFolder.create(tmp_path, run.name, overwrite=False)
  made.config.write_text("{}")
  snapshot = made.snapshots / "000001"
  snapshot.mkdir()
  assert not run.can_resume()
  manifest.write(snapshot)
  assert run.can_resume()
  assert not run.is_active()
  with run_lock.held(made):
    assert run.is_active()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change owners")
@pytest.mark.parametrize("is_new", [True, False])
def test_a_sweep_of_another_user_is_not_used(tmp_path, is_new):
  with contextlib.ExitStack() as resources:
    if is_new:
      os.chown(tmp_path, 12345, -1)
      with pytest.raises(ValueError, match="another user"):
        study.Study.create(tmp_path, True, given.make_plan([]), resources)
      assert not any(tmp_path.iterdir())
    else:
      given.make_sweep(tmp_path, [])
      os.chown(tmp_path / "journal.log", 12345, -1)
      with pytest.raises(ValueError, match="another user"):
        study.Study.open(str(tmp_path), resources)
