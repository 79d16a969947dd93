"""README: all of its commands run, also with the installed wheel."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_README = (_ROOT / "README.md").read_text()
_BIN = pathlib.Path(sys.executable).parent
_SHORT = "--config.limits.trainer_steps=60"

pytestmark = [pytest.mark.examples, pytest.mark.timeout(1200)]


def commands():
  """Returns the shell commands of the README, without comments."""
  blocks = re.findall(r"```sh\n(.*?)```", _README, re.DOTALL)
  lines = "".join(blocks).splitlines()
  return [line.partition("#")[0].strip() for line in lines]


def run(folder, command, path=_BIN, timeout_s=300):
  """Runs a shell command in a folder; returns its standard output."""
  done = subprocess.run(
    ["sh", "-c", command],
    cwd=folder,
    env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
    capture_output=True,
    text=True,
    timeout=timeout_s,
    check=False,
  )
  assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
  return done.stdout


def test_each_command_is_of_a_known_kind():
  known = (
    *("make ", ". .venv/", ".venv/bin/python -m venv ", "pip "),
    *("slipway ", "tensorboard "),
  )
  assert [line for line in commands() if not line.startswith(known)] == []


def test_make_has_the_targets():
  for line in commands():
    if line.startswith("make "):
      run(_ROOT, f"make -n {line.removeprefix('make ')}")


def test_runs_are_trained_evaluated_and_resumed(tmp_path):
  for line in commands():
    # A run of 60 updates has findings, of which the exit status tells.
    if line.startswith("slipway ") and not re.search("control|doctor", line):
      trains = " train " in line and "--resume" not in line
      run(tmp_path, f"{line} {_SHORT}" if trains else line)


def test_a_run_is_controlled(tmp_path):
  training = subprocess.Popen(
    [
      *(sys.executable, "-m", "slipway.launch.commands.train", "--name=first"),
      "--config.limits.target_return=inf",
    ],
    cwd=tmp_path,
    stdout=subprocess.DEVNULL,
  )
  try:
    while not (tmp_path / "runs/first/control.json").exists():
      assert training.poll() is None
      time.sleep(0.1)
    for line in commands():
      if " control " in line:
        run(tmp_path, line)
    run(tmp_path, "slipway control --run=runs/first stop")
    assert training.wait(60) == 0
  finally:
    training.kill()


def test_the_wheel_works_from_any_folder(tmp_path):
  """Installs the wheel in addition to the packages of the lock, as users do."""
  wheels, python = tmp_path / "wheels", tmp_path / "venv" / "bin" / "python"
  uv = _ROOT / "tools" / "uv.sh"
  run(
    _ROOT,
    f"{uv} build -q --wheel --no-build-isolation --python {sys.executable} "
    f"--out-dir {wheels}",
  )
  run(_ROOT, f"{uv} venv -q --python {sys.executable} {tmp_path / 'venv'}")
  run(_ROOT, f"{uv} pip install -q --no-deps --python {python} {wheels}/*.whl")
  (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
  (theirs,) = _BIN.parent.glob("lib/python*/site-packages")
  # This adds the lock's packages, but not the link to this folder, which is in
  # another .pth file.
  (packages / "lock.pth").write_text(f"{theirs}\n")
  home = tmp_path / "home"
  home.mkdir()
  # A user's folder may have the name of a package of Slipway: it has no effect.
  (home / "configs").mkdir()
  (home / "configs" / "__init__.py").write_text("raise ImportError")
  shutil.copy(_ROOT / "examples/own_environment/corridor.py", home)
  (script,) = re.findall(r"```python\n(.*?)```", _README, re.DOTALL)
  assert script.count("\n") <= 15
  (home / "mine.py").write_text(script)
  run(home, f"{python} mine.py", path=python.parent)
  assert (home / "corridor.onnx").exists()
  where = run(home, f"{python} -c 'import slipway; print(slipway.__file__)'")
  assert where.startswith(str(packages))
  (line,) = re.findall(r"`(slipway train --config.environment[^`]*)`", _README)
  run(home, f"{line} {_SHORT}", path=python.parent)
