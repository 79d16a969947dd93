"""Tests of `slipway list`: its output, and its error for an unknown name."""

import sys

import pytest

from slipway.configs import catalog
from slipway.launch.commands import cli


def run(capfd, *flags):
  status = cli.run(["slipway", "list", *flags])
  out, err = capfd.readouterr()
  return status, out, err


def test_all_algorithms_and_presets_are_listed(capfd):
  status, out, _ = run(capfd)
  assert status == 0
  assert len(catalog.algorithms()) >= 12
  for name in (*catalog.algorithms(), *catalog.presets()):
    assert f"  {name} " in out
  assert "Hessel et al. 2018" in out
  assert "until ;" not in out


@pytest.mark.parametrize("algorithm", ["dqn", "rainbow", "r2d2"])
def test_the_fields_and_the_memory_of_an_algorithm_are_shown(capfd, algorithm):
  status, out, _ = run(capfd, f"--algorithm={algorithm}")
  assert status == 0
  for preset in catalog.algorithms()[algorithm].PRESETS:
    assert f"  {preset} " in out
  assert ("network.noisy" in out) == (algorithm == "rainbow")
  assert ("samples_per_insert" in out) == (algorithm == "r2d2")
  assert "GB of replay" in out


@pytest.mark.parametrize(
  ("wrong", "near"), [("rainbw", "rainbow"), ("r2d", "r2d2"), ("c52", "c51")]
)
def test_a_wrong_name_suggests_the_nearest(capfd, wrong, near):
  status, out, err = run(capfd, f"--algorithm={wrong}")
  assert (status, out) == (2, "")
  assert err.count("\n") == 1
  assert f"did you mean {near}?" in err


def test_a_name_like_no_other_gets_no_suggestion(capfd):
  status, _, err = run(capfd, "--algorithm=something")
  assert status == 2
  assert "did you mean" not in err
  assert "slipway list" in err


def test_an_algorithm_of_your_own(capfd, tmp_path, monkeypatch):
  monkeypatch.setattr(sys, "path", [*sys.path])
  file = tmp_path / "mine.py"
  file.write_text(
    "from slipway.configs import dqn\n\n"
    "def get_config():\n"
    "  config = dqn.get_config()\n"
    "  config.learner.batch_size = 48\n"
    "  return config\n"
  )
  status, out, _ = run(capfd, f"--algorithm={file}")
  assert status == 0
  assert "learner.batch_size" in out and "GB of replay" in out
  file.write_text("1 / 0\n")
  status, out, err = run(capfd, f"--algorithm={file}")
  assert (status, out) == (2, "")
  assert "ZeroDivisionError" in err
