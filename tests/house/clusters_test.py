"""Files for clusters: what they refer to exists, and they agree."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

from slipway.launch.checks import train_flags

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_FILES = _ROOT / "launch" / "clusters"
_PACKAGES = {"agents", "configs", "environments", "launch", "replay"}


@pytest.fixture
def documents():
  return list(yaml.safe_load_all((_FILES / "kuberay.yaml").read_text()))


@pytest.fixture
def kuberay(documents):
  return documents[0]["spec"]


@pytest.fixture
def groups(kuberay):
  cluster = kuberay["rayClusterSpec"]
  return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


@pytest.fixture
def ray_up():
  return yaml.safe_load((_FILES / "ray-up.yaml").read_text())


@pytest.fixture
def start():
  return (_FILES / "start.sh").read_text()


@pytest.fixture
def workdir():
  """Returns the project's folder in the image of the Dockerfile."""
  dockerfile = (_FILES / "Dockerfile").read_text()
  (workdir,) = re.findall(r"^WORKDIR (\S+)$", dockerfile, re.MULTILINE)
  return workdir


def test_kuberay_has_the_locked_ray(kuberay):
  lock = (_ROOT / "requirements.txt").read_text()
  (version,) = re.findall(r"^ray==(\S+)", lock, re.MULTILINE)
  assert kuberay["rayClusterSpec"]["rayVersion"] == version


def test_kuberay_starts_a_run(kuberay, workdir):
  entrypoint = kuberay["entrypoint"]
  # KubeRay inserts the entrypoint into a longer shell command.
  assert not re.search(r"[#'\"$;&|]", entrypoint)
  program, command, *given = shlex.split(entrypoint)
  assert (program, command) == ("slipway", "train")
  here = [flag.replace(f"={workdir}/", f"={_ROOT}/") for flag in given]
  flags, _ = train_flags.parse([program, *here], "")
  assert flags.launch == "ray"


def test_kuberay_writes_runs_to_a_volume(kuberay, groups):
  head = groups[0]["template"]["spec"]
  (mount,) = head["containers"][0]["volumeMounts"]
  assert f"--run_dir={mount['mountPath']}" in kuberay["entrypoint"]
  assert mount["name"] in [volume["name"] for volume in head["volumes"]]


def test_kuberay_has_the_settings_of_the_start_script(kuberay, groups, start):
  exported = dict(re.findall(r"^export (\w+)=(-?\d+)$", start, re.MULTILINE))
  assert "RAY_health_check_timeout_ms" in exported
  exported["RAY_USE_TLS"] = "0"
  (store,) = re.findall(r"--object-store-memory=(\d+)", start)
  for group in groups:
    (container,) = group["template"]["spec"]["containers"]
    assert {e["name"]: e["value"] for e in container["env"]} == exported
    assert group["rayStartParams"] == {"object-store-memory": store}
  assert kuberay["rayClusterSpec"]["authOptions"] == {"mode": "token"}


def test_kuberay_admits_only_the_pods_of_the_run(documents, groups):
  policy = documents[1]["spec"]
  pods = policy["podSelector"]
  for group in groups:
    labels = group["template"]["metadata"]["labels"]
    assert pods["matchLabels"].items() <= labels.items()
  own, dashboard = policy["ingress"]
  assert own == {"from": [{"podSelector": pods}]}
  assert dashboard == {"ports": [{"port": 8265}]}


def test_the_image_has_the_files_that_it_runs(workdir):
  dockerfile = (_FILES / "Dockerfile").read_text()
  assert "\nCOPY . .\n" in dockerfile
  assert f"PATH={workdir}/.venv/bin:$PATH\n" in dockerfile
  (setup,) = re.findall(r"tools/\S+", dockerfile)
  assert (_ROOT / setup).stat().st_mode & 0o100
  ignored = set((_ROOT / ".dockerignore").read_text().split())
  assert not ignored & {*_PACKAGES, "tools", "requirements.txt"}


def test_ray_up_copies_the_files_that_machines_need(ray_up, tmp_path):
  mounts = ray_up["file_mounts"]
  project = {
    remote.removeprefix("~/slipway/"): local
    for remote, local in mounts.items()
    if remote.startswith("~/slipway/")
  }
  package = {"pyproject.toml", "setup.py", "README.md", "__init__.py"}
  others = {"py.typed", "tools", "requirements.txt"}
  assert project.keys() == _PACKAGES | package | others
  for remote, local in project.items():
    assert remote == local
    if (_ROOT / local).is_dir():
      ignored = shutil.ignore_patterns(*ray_up["rsync_exclude"])
      shutil.copytree(_ROOT / local, tmp_path / local, ignore=ignored)
    else:
      shutil.copy(_ROOT / local, tmp_path / local)
  # What tools/setup.sh does there: the build's first step reads all its files.
  build = "import setuptools.build_meta as x; x.build_editable('.')"
  subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True)
  commands = [
    *ray_up["setup_commands"],
    *ray_up["head_start_ray_commands"],
    *ray_up["worker_start_ray_commands"],
  ]
  for path in re.findall(r"~/slipway/(\S+\.sh)", "\n".join(commands)):
    assert (_ROOT / path).stat().st_mode & 0o100, path


def test_ray_up_has_the_port_of_the_docs(ray_up):
  head, worker = (
    ray_up[f"{kind}_start_ray_commands"][-1] for kind in ("head", "worker")
  )
  (port,) = re.findall(r"--port=(\d+)", head)
  assert worker.endswith(f"start.sh join $RAY_HEAD_IP:{port}")
  docs = (_ROOT / "docs" / "machines.md").read_text()
  assert f"--ray_address=HEAD:{port}" in docs
  assert f"start.sh head --port={port}" in docs
