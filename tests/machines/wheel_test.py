"""A cluster whose machines have the installed wheel, but no checkout."""

import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_cluster_of_the_wheel_trains(network, start_cluster):
  wheels, venv = network.shared / "wheels", network.shared / "venv"
  uv, python = "tools/uv.sh", venv / "bin" / "python"
  for command in (
    f"{uv} build -q --wheel --no-build-isolation --python {sys.executable} "
    f"--out-dir {wheels}",
    f"{sys.executable} tools/launchpad_wheel.py {wheels}",
    f"{uv} venv -q --python {sys.executable} {venv}",
    f"{uv} pip install -q --no-deps --python {python} -r requirements.txt",
    f"{uv} pip install -q --no-deps --python {python} {wheels}/*.whl",
  ):
    subprocess.run(command, shell=True, check=True, cwd=_ROOT)
  (start,) = venv.glob("lib/*/site-packages/slipway/launch/clusters/start.sh")
  cluster = start_cluster(2, start=start)
  folder = network.shared / "runs" / "a-run"
  cluster.head.run(
    [str(venv / "bin" / "slipway"), "train", "--launch=ray"]
    + [f"--ray_address={cluster.address}", f"--run_dir={folder.parent}"]
    + ["--name=a-run", "--config.limits.trainer_steps=200"],
    env=cluster.environment,
    timeout_s=300,
  )
  summary = json.loads((folder / "summary.json").read_text())
  assert summary["stopped_because"] == "trainer_steps"
  assert len(summary["machines"]) == 2
