"""The command `slipway dashboard`."""

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from slipway.launch.commands import cli
from tests.launch import errors
from tests.launch.dashboard import given


@contextlib.contextmanager
def started(folder, *arguments):
  """Yields the process of the command, and the address that it prints."""
  process = subprocess.Popen(
    [sys.executable, "-m", "slipway.launch.commands.cli", "dashboard"]
    + [*map(str, arguments)],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    cwd=folder,
  )
  try:
    yield process, process.stdout.readline().strip()
  finally:
    process.kill()
    process.communicate()


def test_the_newest_run_or_sweep_is_shown_until_an_interrupt(tmp_path):
  given.make_run(tmp_path / "runs" / "old")
  given.make_run(tmp_path / "runs" / "sweep" / "0-1")
  os.utime(tmp_path / "runs" / "old", (0, 0))
  with started(tmp_path) as (process, address):
    port, token = re.fullmatch(
      r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{32})", address
    ).groups()
    ((_, name, *_),) = given.load(int(port), "runs", token=token)
    assert name == "0-1"
    assert given.request(int(port), "/api/runs")[0] == 401  # another token
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "")
    assert process.returncode == 0


def test_only_this_machine_can_connect_by_default(tmp_path):
  given.make_run(tmp_path / "a")
  with started(tmp_path, tmp_path) as (_, address):
    port = int(re.search(r":(\d+)/", address)[1])
    # All of 127.0.0.0/8 is this machine.
    connection = http.client.HTTPConnection("127.0.0.2", port)
    with pytest.raises(ConnectionRefusedError):
      connection.request("GET", "/")


def test_a_program_of_a_run_is_not_executed(tmp_path):
  folder = given.make_run(tmp_path / "a", **{"network.torso": "evil:Torso"})
  code = "open('executed', 'w').close()"
  (tmp_path / "evil.py").write_text(code)
  (folder.path / "python_path.json").write_text(f'["{tmp_path}"]')
  given.add_evaluations(folder, [1.0])
  with started(tmp_path, folder.path) as (_, address):
    port, token = re.search(r":(\d+)/#token=(.*)", address).groups()
    ((key, *_),) = given.load(int(port), "runs", token=token)
    for path in ("runs/" + key, f"runs/{key}/config", "comparison/wall_s"):
      given.load(int(port), path, token=token)
  assert not (tmp_path / "executed").exists()


def test_wrong_arguments_print_one_line(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  given.make_run(tmp_path / "a-run")
  (tmp_path / "runs").mkdir()
  with socket.create_server(("127.0.0.1", 0)) as taken:
    port = taken.getsockname()[1]
    for words, part in (
      ("", "has no config.json"),
      ("a-rum", "did you mean"),
      ("runs", "has no config.json"),
      ("a-run --prot=1", "did you mean --port?"),
      ("a-run --port=70000", "--port=70000 can't be used"),
      (f"a-run --port={port}", f"--port={port} can't be used (Address already"),
      ("a-run --host=300.0.0.1", "--host=300.0.0.1 "),
    ):
      assert cli.run(["slipway", "dashboard", *words.split()]) == 2
      errors.check_printed(capsys, "dashboard: ", part)
