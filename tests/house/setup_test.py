"""Set-up: a complete lock, and libraries that print nothing when imported."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]

_LIBRARIES = (
  "tensorflow",
  "reverb",
  "sonnet",
  "launchpad",
  "acme",
  "acme.tf.networks",
  "gymnasium",
  "ale_py",
  "moviepy",
  "ray",
  "uvloop",
)

_LOCKS = (
  "requirements",
  "requirements-gpu",
  "requirements-dev",
  "tools/launchpad",
  "tools/uv",
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


def _lock(name: str = "requirements") -> str:
  return (_ROOT / f"{name}.txt").read_text()


def _releases(lock: str) -> dict[str, str]:
  """Returns the release of each package of a lock, by name."""
  return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))


@pytest.mark.parametrize("name", _LOCKS)
def test_each_entry_is_pinned_and_hashed(name):
  assert _entries(_lock(name))
  assert _find_unpinned(_lock(name)) == []


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
  project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
  requested = (_ROOT / "requirements.in").read_text()
  lines = [line.partition("#")[0].strip() for line in requested.splitlines()]
  (launchpad,) = _releases(_lock("tools/launchpad")).items()
  # dm-acme is left out: it pins another release of Launchpad.
  assert set(project["dependencies"]) == {
    "==".join(launchpad),
    *(line for line in lines if line and not line.startswith("dm-acme")),
  }


def test_the_wheel_has_all_modules(tmp_path):
  files = ["__init__.py", "py.typed", "launch/clusters/start.sh"]
  for top in ("agents", "configs", "environments", "launch", "replay"):
    shutil.copytree(
      _ROOT / top,
      tmp_path / top,
      ignore=shutil.ignore_patterns("__pycache__"),
    )
    files += [str(x.relative_to(_ROOT)) for x in (_ROOT / top).rglob("*.py")]
  pages = (_ROOT / "launch/dashboard/page").iterdir()
  files += [str(x.relative_to(_ROOT)) for x in pages]
  for name in (*files[:2], "pyproject.toml", "setup.py", "README.md"):
    shutil.copy(_ROOT / name, tmp_path)
  build = "import setuptools.build_meta as x; x.build_wheel('.')"
  subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True)
  (wheel,) = tmp_path.glob("*.whl")
  names = zipfile.ZipFile(wheel).namelist()
  found = {x.removeprefix("slipway/") for x in names if ".dist-info/" not in x}
  assert found == set(files)


def test_the_lock_has_all_requested_packages_and_no_excluded_one():
  locked = _releases(_lock()).keys()
  assert _requested("requirements.in") <= locked
  assert not _requested("tools/excludes.txt") & locked


def test_the_lock_of_the_checks_has_what_is_missing():
  locked, checks = _releases(_lock()), _releases(_lock("requirements-dev"))
  assert _requested("requirements-dev.in") <= locked.keys() | checks.keys()
  assert not locked.keys() & checks.keys()
  assert not _requested("tools/excludes.txt") & checks.keys()


def test_the_lock_for_gpus_adds_cuda_alone():
  cpu, gpu = _releases(_lock()), _releases(_lock("requirements-gpu"))
  assert gpu.pop("tensorflow") == cpu.pop("tensorflow-cpu")
  added = {name for name in gpu if name not in cpu}
  assert {name for name in added if not name.startswith("nvidia-")} == set()
  assert {"nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12"} <= added
  assert {name: gpu[name] for name in cpu} == cpu


@pytest.mark.parametrize(
  "file", ["requirements.in", "requirements-dev.in", "tools/excludes.txt"]
)
def test_each_line_has_a_reason(file):
  lines = (_ROOT / file).read_text().splitlines()
  requested = [line for line in lines if line and not line.startswith("#")]
  assert requested
  assert [line for line in requested if not re.search(r"  # \S", line)] == []


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


def _checkout(
  folder: pathlib.Path, built: str = "requirements.txt"
) -> pathlib.Path:
  """Copies the set-up to a folder, with a .venv that counts as built.

  Args:
    folder: the existing folder.
    built: lock of which .venv is built.
  """
  shutil.copytree(_ROOT / "tools", folder / "tools")
  for name in (*_LOCKS[:3], "pyproject"):
    (path,) = _ROOT.glob(f"{name}.t*")
    shutil.copy(path, folder)
  venv = folder / ".venv"
  (venv / "bin").mkdir(parents=True)
  (venv / "bin" / "python").symlink_to(sys.executable)

  def sums(*files: str) -> str:
    return subprocess.check_output(["sha256sum", *files], cwd=folder, text=True)

  (venv / "base").write_text(
    sums(built, "tools/launchpad.txt", "tools/launchpad_wheel.py")
  )
  (venv / "dev").write_text(sums("requirements-dev.txt"))
  (venv / "slipway").write_text(f"{sums('pyproject.toml').strip()} {folder}\n")
  return folder


def _set_up(
  folder: pathlib.Path, path: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess:
  """Runs the set-up with the given PATH, and the checkout as home folder."""
  return subprocess.run(
    ["/bin/sh", "tools/setup.sh", *arguments],
    cwd=folder,
    env={"PATH": path, "HOME": str(folder), **environment},
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
  tools = "cat date dirname flock grep head ln mkdir mktemp mv rm sed"
  for tool in [*tools.split(), "sh", "sha256sum", "uname"]:
    found = shutil.which(tool)
    assert found, tool
    (folder / tool).symlink_to(found)
  for name, script in scripts.items():
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
  return str(folder)


@pytest.mark.parametrize("arguments", [(), ("dev",)])
def test_a_built_environment_is_left_alone(tmp_path, arguments):
  checkout = _checkout(tmp_path)
  run = _set_up(checkout, _programs(tmp_path / "programs"), *arguments)
  assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize(
  ("built", "environment", "locks"),
  [
    (None, {}, ["requirements.txt"]),
    (None, {"GPU": "1"}, ["requirements-gpu.txt"]),
    # The kind of .venv is kept until the user changes it.
    ("requirements-gpu.txt", {}, []),
    ("requirements-gpu.txt", {"GPU": "0"}, ["requirements.txt"]),
    ("requirements.txt", {"GPU": "1"}, ["requirements-gpu.txt"]),
    ("requirements.txt", {"GPU": "0"}, []),
  ],
)
def test_the_lock_is_that_of_the_wanted_kind(
  tmp_path, built, environment, locks
):
  checkout = _checkout(tmp_path, built or "requirements.txt")
  if built is None:
    shutil.rmtree(checkout / ".venv")
  # uv is replaced by a program that only records its arguments.
  (checkout / "tools" / "uv.sh").write_text(
    '#!/bin/sh\necho "$@" >>uv.log\nif [ "$1" = venv ]; then\n'
    f"  mkdir -p .venv/bin && ln -s {sys.executable} .venv/bin/python\nfi\n"
  )
  if locks:
    wheel = checkout / "tools" / "launchpad_wheel.py"
    wheel.write_text("print('launchpad.whl')\n")
  path = _programs(tmp_path / "bin", python3=f'exec {sys.executable} "$@"')
  run = _set_up(checkout, path, **environment)
  assert run.returncode == 0, run.stderr
  log = checkout / "uv.log"
  used = re.findall(r" -r (\S+)", log.read_text() if locks else "")
  assert used == locks
  again = _set_up(checkout, path)
  assert (again.returncode, again.stderr) == (0, "")


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
  stamp = checkout / ".venv" / "base"
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
  (checkout / ".venv" / "base").unlink()
  path = _programs(tmp_path / "programs", uname="echo Darwin arm64")
  run = _set_up(checkout, path)
  assert run.returncode == 1
  (error,) = run.stderr.splitlines()
  assert error.startswith("setup: this machine is Darwin arm64: ")
