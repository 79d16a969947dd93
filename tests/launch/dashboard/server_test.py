"""The dashboard's server: who may read what, and the data of the page."""

import json
import time

import pytest

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.runs import run as run_lib
from tests.launch import controlled
from tests.launch.dashboard import given

# Launchpad uses the alarm signal, which is pytest's default for timeouts.
pytestmark = pytest.mark.timeout(120, method="thread")


@pytest.fixture
def run(tmp_path):
  """Returns the folder of an ended run, whose name no other file has."""
  folder = given.make_run(tmp_path / "first")
  given.add_evaluations(folder, [10.0, 20.0, 30.0])
  given.end(folder, env_steps=300)
  folder.logs.joinpath("worker").mkdir()
  folder.logs.joinpath("worker", "0").write_text("a line\n")
  folder.videos.joinpath("best.mp4").write_bytes(bytes(range(100)))
  return folder


def get_key(port):
  (row,) = given.load_runs(port).values()
  return row["key"]


def test_data_needs_the_token_and_the_page_has_none(run):
  with given.served(run.path) as port:
    key = get_key(port)
    for path in ("", "/config", "/files/logs/worker/0", "/inspect"):
      for token in (None, "", "a-tokem", "a-token "):
        found = given.request(port, f"/api/runs/{key}{path}", token=token)
        assert found[0] == 401, path
        assert b"first" not in found[2]
    for path in ("runs", "comparison/wall_s"):
      assert given.request(port, f"/api/{path}", token=None)[0] == 401
    for path in ("/", "/page.js", "/charts.js", "/tables.js", "/page.css"):
      status, headers, content = given.request(port, path, token=None)
      assert status == 200
      assert b"a-token" not in content
      assert headers["Content-Security-Policy"].startswith("default-src 'none'")
      assert "Set-Cookie" not in headers


@pytest.mark.parametrize(
  ("host", "status"),
  [
    ("127.0.0.1:80", 200),
    ("localhost", 200),
    ("LOCALHOST:8080", 200),
    ("[::1]:80", 200),
    ("192.168.0.7:80", 200),
    ("a-proxy.example", 200),
    ("evil.example", 400),
    ("evil.example:80", 400),
    ("127.0.0.1.evil.example", 400),
    ("localhost.evil.example", 400),
    ("", 400),
  ],
)
def test_a_request_for_another_host_is_rejected(run, host, status):
  with given.served(run.path, name="a-proxy.example") as port:
    for path in ("/", "/api/runs"):
      assert given.request(port, path, host=host)[0] == status


@pytest.mark.parametrize(
  "path",
  [
    "config.json",
    "logs",
    "logs/../config.json",
    "logs/%2e%2e/config.json",
    "logs/..%2fconfig.json",
    "logs/link",
    "videos/folder/passwd",
    "/etc/passwd",
    "%2fetc/passwd",
    "logs/worker/0%00",
    "logs/loop",
    "snapshots/secret",
  ],
)
def test_only_logs_and_videos_are_sent(run, tmp_path, path):
  (run.snapshots / "secret").write_text("secret")
  (run.logs / "link").symlink_to(run.snapshots / "secret")
  (run.logs / "loop").symlink_to(run.logs / "loop")
  (run.logs / "no-utf-8-\udcff").touch()
  (run.videos / "folder").symlink_to("/etc")
  with given.served(run.path) as port:
    name = f"/api/runs/{get_key(port)}/files/{path}"
    status, _, content = given.request(port, name)
    assert status in (308, 404)
    assert b"secret" not in content and b"root" not in content
    shown = given.load(port, f"runs/{get_key(port)}")
    assert shown["files"] == ["logs/worker/0", "videos/best.mp4"]


@pytest.mark.parametrize(
  "path",
  [
    "/page.py",
    "/..%2fserver.py",
    "/%2e%2e/server.py",
    "/api/runs/x",
    "/api/comparison/x",
  ],
)
def test_other_paths_are_not_found(run, path):
  with given.served(run.path) as port:
    assert given.request(port, path)[0] == 404


# The command has the lowest priority, and imports much.
@pytest.mark.timeout(300, method="thread")
def test_what_doctor_prints_is_shown(run):
  with given.served(run.path) as port:
    printed = given.load(port, f"runs/{get_key(port)}/doctor")
  assert "300 environment steps" in printed


def test_an_ended_run(run):
  with given.served(run.path) as port:
    row = given.load_runs(port)["first"]
    assert (row["state"], row["numbers"][0]) == ("ended", 300)
    assert row["note"] == "because: the limit of trainer steps was reached"
    shown = given.load(port, f"runs/{row['key']}")
    assert shown["status"]["stopped_because"] == "trainer_steps"
    assert shown["evaluations"]["eval_return"] == [10.0, 20.0, 30.0]
    assert shown["evaluations"]["wall_s"] == [2.0, 4.0, 6.0]
    assert shown["metrics"]["run/trainer_steps"] == [10, 20, 30]


def test_an_active_run(tmp_path):
  folder = given.make_run(tmp_path / "runs" / "a")
  (tmp_path / "memory").mkdir()
  config = dqn.get_config()
  spec = factory.make_spec(config.environment)
  made = run_lib.Run(config, spec, folder, time.time())
  with given.served(folder.path) as port:
    assert given.load_runs(port)["a"]["state"] == "not started"
    with controlled.controlled(
      made, {"trainer": 1, "worker": 2}, tmp_path / "memory"
    ) as controller:
      row = given.load_runs(port)["a"]
      assert row["state"] == "active"
      shown = given.load(port, f"runs/{row['key']}")
      assert shown["status"]["nodes"]["worker"] == {"up": 0, "expected": 2}
      (row,) = [row for row in shown["panel"] if row[0] == "nodes up"]
      assert "worker 0/2" in row[1] and row[2]
      controller.control.stop("control")
    assert given.load_runs(port)["a"]["state"] == "ended"


def test_a_killed_run(tmp_path):
  folder = given.make_run(tmp_path / "a")
  given.add_evaluations(folder, [10.0])
  with given.served(tmp_path) as port:
    row = given.load_runs(port)["a"]
    assert row["state"] == "killed"
    shown = given.load(port, f"runs/{row['key']}")
    assert shown["status"] is None
    assert shown["evaluations"]["eval_return"] == [10.0]


def test_a_long_run_has_a_bounded_number_of_evaluations(run):
  header, row, *_ = run.curves_csv.read_text().splitlines(keepends=True)
  rest = row.partition(",")[2]
  rows = [f"{index},{rest}" for index in range(1, 2_501)]
  run.curves_csv.write_text("".join([header, *rows]))
  with given.served(run.path) as port:
    shown = given.load(port, f"runs/{get_key(port)}")["evaluations"]
  assert len(shown["eval_return"]) == len(shown["wall_s"]) <= 1_000
  assert shown["wall_s"][-1] == 2_500


def test_a_damaged_file_is_reported(run):
  run.summary.write_text("{")
  with given.served(run.path) as port:
    row = given.load_runs(port)["first"]
    assert row["state"] == "unknown"
    assert "summary.json" in row["note"]
    run.config.write_text("{")
    path = f"/api/runs/{row['key']}/config"
    status, _, content = given.request(port, path)
    assert status == 500
    assert b"config.json" in content


def test_runs_of_a_folder_appear_once_they_begin(tmp_path):
  given.make_run(tmp_path / "2-1")
  with given.served(tmp_path, tmp_path / "2-1") as port:
    assert [*given.load_runs(port)] == ["2-1"]
    given.make_run(tmp_path / "10-1")
    assert [*given.load_runs(port)] == ["2-1", "10-1"]


def test_the_end_of_a_log(run):
  lines = [f"line {index}" for index in range(20_000)]
  (run.logs / "runner").write_text("\n".join(lines))
  with given.served(run.path) as port:
    path = f"/api/runs/{get_key(port)}/files/logs/runner"
    status, _, content = given.request(port, path)
    assert status == 200
    assert json.loads(content) == "\n".join(lines)[-100_000:]


def test_the_config_has_its_differences_to_the_nearest_preset(tmp_path):
  changes = {"learner.learning_rate": 0.5, "environment.kwargs": {"a": 1}}
  folder = given.make_run(tmp_path / "a", "rainbow:cartpole", seed=7, **changes)
  with given.served(folder.path) as port:
    shown = given.load(port, f"runs/{get_key(port)}/config")
  assert shown["preset"] == "rainbow:cartpole"
  changed = {name: value for name, value, old in shown["rows"] if value != old}
  assert changed == {
    "seed": "7",
    "learner.learning_rate": "0.5",
    "environment.kwargs.a": "1",
  }


def test_runs_are_compared_by_config(tmp_path):
  for name, seed, rate in (("a", 1, 1e-3), ("b", 2, 1e-3), ("c", 1, 1e-2)):
    folder = given.make_run(
      tmp_path / name, seed=seed, **{"learner.learning_rate": rate}
    )
    given.add_evaluations(folder, [seed, 10.0 * seed])
  given.make_run(tmp_path / "d")  # without an evaluation
  with given.served(tmp_path) as port:
    for axis, last in (("env_steps", 200), ("wall_s", 4.0)):
      first, second = given.load(port, f"comparison/{axis}")
      assert first["name"] == "a (2 seeds)"
      assert first["fields"] == "learner.learning_rate=0.001"
      assert first["key"] == given.load_runs(port)["a"]["key"]
      assert first["final"] == [15.0, 10.0, 20.0]
      (line,) = first["lines"]
      assert line["at"][-1] == last
      assert (line["low"][-1], line["mean"][-1]) == (10.0, 15.0)
      assert second["final"] == [10.0, None, None]
      assert second["lines"][0]["mean"] == [1.0, 10.0]
    # What is kept of the files is read again once they change.
    given.end(folder)
    given.add_evaluations(folder, [50.0])
    assert given.load(port, "comparison/wall_s")[1]["final"][0] > 10.0
