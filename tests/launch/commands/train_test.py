"""Tests of `slipway train` with user code that fails before the start."""

import fsspec
import pytest
from fsspec.implementations import memory

from slipway.launch.checks import train_flags
from slipway.launch.commands import train
from slipway.launch.runs import run_folder, run_lock

pytestmark = pytest.mark.filterwarnings("ignore:.*Overriding environment")

_ENVIRONMENT = """
import os, sys
import gymnasium
import numpy as np

class Faulty(gymnasium.Env):
  observation_space = gymnasium.spaces.Box(0.0, 1.0, (4,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)

  def __init__(self, render_mode=None):
    {constructor}

  def reset(self, *, seed=None, options=None):
    return self.observation_space.sample(), {{}}

  def step(self, action):
    {step}
    return self.observation_space.sample(), float("{reward}"), True, False, {{}}

gymnasium.register("Faulty-v0", entry_point=Faulty)
{module}
"""
_NOTHING = {"module": "", "constructor": "pass", "step": "pass", "reward": 1.0}

# the environment's faulty code, words of the error line, and whether frames of
# a traceback follow it
FAULTS = [
  ({"module": "sys.exit(0)"}, "importing {} failed (SystemExit: 0)", True),
  ({"module": "os._exit(0)"}, "(SystemExit: os._exit(0))", True),
  ({"constructor": "1 / 0"}, "constructor raised ZeroDivisionError", True),
  ({"constructor": "os._exit(0)"}, "SystemExit: os._exit(0)", True),
  ({"step": "os._exit(0)"}, "{}:Faulty-v0 (index 0, seed ", True),
  ({"reward": "inf"}, "step 1): step() returned reward inf", False),
]


@pytest.mark.parametrize(("fault", "words", "frames"), FAULTS)
def test_an_environment_that_fails(
  fault, words, frames, tmp_path, monkeypatch, capsys
):
  monkeypatch.syspath_prepend(tmp_path)
  module = f"faulty_{FAULTS.index((fault, words, frames))}"
  path = tmp_path / f"{module}.py"
  path.write_text(_ENVIRONMENT.format(**(_NOTHING | fault)))
  flags = [f"--config.environment.name={module}:Faulty-v0"]
  check_rejected(flags, words.format(module), path if frames else None, capsys)


def test_a_config_file_that_exits(tmp_path, capsys):
  path = tmp_path / "own.py"
  path.write_text("import os\nos._exit(0)\n")
  words = f"line 2 of {path} failed (SystemExit: os._exit(0))"
  check_rejected([f"--config={path}"], words, path, capsys)


def test_an_older_run_is_locked_until_it_is_replaced(
  tmp_path, monkeypatch, capsys
):
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(train_flags.parse(["train"], "").config)

  def create(run_dir, name, overwrite):
    """Is called in place of `RunFolder.create`, which deletes the old run."""
    with pytest.raises(ValueError, match="active"), run_lock.held(folder):
      pass
    raise ValueError("the old run was locked")

  monkeypatch.setattr(run_folder.RunFolder, "create", create)
  flags = ["--overwrite", "--name=a-run", f"--run_dir={tmp_path}"]
  check_rejected(flags, "the old run was locked", None, capsys)


@pytest.mark.parametrize("name", ["runs", "a[1]"])
def test_a_resume_that_would_damage_the_run(name, tmp_path, capsys):
  """Its snapshots would be copied onto themselves, or can't be restored."""
  folder = run_folder.RunFolder(tmp_path / name / "a-run")
  folder.path.mkdir(parents=True)
  config = train_flags.parse(["train"], "").config
  if name == "runs":
    config.snapshot.url = str(tmp_path / "runs")
  folder.write_config(config)
  folder.summary.touch()
  words = "overlaps" if name == "runs" else "is read as a pattern"
  check_rejected([f"--resume={folder.path}"], words, None, capsys)
  assert {path.name for path in folder.path.iterdir()} - {".lock"} == {
    "config.json",
    "summary.json",
  }


class FullFileSystem(memory.MemoryFileSystem):
  """A remote location that has no space left for any file of a run."""

  protocol = "full"
  store, pseudo_dirs = {}, [""]

  def put_file(self, lpath, rpath, **kwargs):
    raise OSError("no space left")


fsspec.register_implementation("full", FullFileSystem, clobber=True)


def test_a_run_whose_config_can_t_be_published_leaves_nothing(tmp_path, capsys):
  flags = ["--name=a-run", f"--run_dir={tmp_path / 'runs'}"]
  flags.append("--config.snapshot.url=full://runs")
  check_rejected(flags, "no space left", None, capsys)
  assert not (tmp_path / "runs" / "a-run").exists()


def check_rejected(flags, words, path, capsys):
  """Checks that only one line and the frames of one file are printed.

  Args:
    flags: flags of `slipway train`.
    words: words that the line must contain.
    path: file whose frames follow the line; None: no frames follow.
    capsys: pytest's fixture.
  """
  assert train.main(["train", *flags]) == 2
  printed = capsys.readouterr()
  assert printed.out == ""
  line, *rest = printed.err.splitlines()
  assert line.startswith("train: ")
  assert words in line
  files = [line for line in rest if line.startswith("  File ")]
  assert len(files) == (path is not None)
  for file in files:
    assert f'"{path}"' in file
