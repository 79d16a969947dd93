"""The files of launch/clusters, with the programs that read them."""

import json
import pathlib
import subprocess

import pytest
import yaml
from ray.autoscaler._private import util

from tests.machines import runs, slurm

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]

_FILES = pathlib.Path(__file__).parents[2] / "launch" / "clusters"
_SCRIPT = "launch/clusters/slurm.sbatch"


def _submit(network, *flags):
  """Submits a job of three machines; returns it and its run's folder."""
  path = network.shared / "runs" / "a-run"
  job = slurm.Job(
    network.shared / "slurm",
    [network.add(f"machine{number}") for number in range(3)],
    _SCRIPT,
    *(f"--run_dir={path.parent}", "--name=a-run", *runs.ENDLESS, *flags),
  )
  return job, path


def _summary(path):
  return json.loads((path / "summary.json").read_text())


def _wait_until_nothing_left(network):
  """Waits until no process is left on any host.

  SLURM itself would kill the remaining ones.
  """

  def is_empty():
    left = [p.name() for host in network.hosts for p in host.processes()]
    assert not left, left
    return True

  runs.wait_until(is_empty, 30.0)


def test_slurm_runs_a_job_to_its_end(network):
  job, path = _submit(network, "--config.limits.environment_steps=2_000")
  assert job.options == {"--kill-on-bad-exit", "--cpus-per-task=2"}
  assert job.wait(200) == 0, job.output
  assert _summary(path)["stopped_because"] == "environment_steps"
  for name in ("curves.png", "logs/worker/3"):
    assert (path / name).stat().st_size, name
  _wait_until_nothing_left(network)


def test_slurm_cancels_a_job_in_order(network):
  job, path = _submit(network)
  runs.wait_until(lambda: (path / "snapshots/000001/run.json").exists(), 150.0)
  job.cancel()
  assert job.wait(120) == 0, job.output
  assert _summary(path)["stopped_because"] == "SIGTERM"
  _wait_until_nothing_left(network)


def test_slurm_gets_the_status_of_a_failed_command(network):
  job, path = _submit(network, "--config.topology.machines=7")
  assert job.wait(120) == 2, job.output
  assert "needs 8 machines" in job.output
  assert not path.exists()
  _wait_until_nothing_left(network)


@pytest.mark.parametrize(
  ("arguments", "tls", "message"),
  [
    ("run", "", "run needs the head's HOST:PORT, not ''"),
    ("run here:1 many -- true", "", "the number of machines, not 'many'"),
    ("run here:1 2 true", "0", "run needs -- and a command"),
    ("head", "", "make one by `slipway certificates`"),
    ("stop", "", "start.sh run HOST:PORT MACHINES -- COMMAND; not 'stop'"),
  ],
)
def test_arguments_that_the_start_script_rejects(
  arguments, tls, message, monkeypatch, tmp_path
):
  monkeypatch.setenv("RAY_USE_TLS", tls)
  monkeypatch.setenv("HOME", str(tmp_path))
  monkeypatch.setenv("RAY_AUTH_TOKEN", "a-token")
  done = subprocess.run(
    [str(_FILES / "start.sh"), *arguments.split()],
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 1
  (line,) = done.stderr.splitlines()
  assert message in line


def test_ray_up_accepts_its_file():
  config = util.prepare_config(
    yaml.safe_load((_FILES / "ray-up.yaml").read_text())
  )
  util.validate_config(config)
  ((_, machines),) = config["available_node_types"].items()
  assert machines["min_workers"] == len(config["provider"]["worker_ips"])
