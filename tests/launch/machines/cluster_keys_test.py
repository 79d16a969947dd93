"""Tests of cluster keys: machines with the same token accept each other."""

import multiprocessing
import pathlib
import socket
import stat
import subprocess
import sys
from concurrent import futures

import grpc
import pytest

from slipway.launch.machines import cluster_keys

_TOKEN = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
  """Makes a home directory without a token, and returns it."""
  monkeypatch.setenv("HOME", str(tmp_path))
  for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_TLS_SERVER_CERT"):
    monkeypatch.delenv(name, raising=False)
  return tmp_path


def _pems(identity):
  """Returns the certificate authority, key and certificate that Ray gets."""
  variables = cluster_keys.make_environment_variables(identity)
  assert variables["RAY_USE_TLS"] == "1"
  names = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_SERVER_CERT")
  return [pathlib.Path(variables[name]).read_bytes() for name in names]


def _call(server, client, name):
  """Calls a server by a name, as Ray does, and returns the error, if any.

  Args:
    server: identity of the server's machine.
    client: identity of the client's machine.
    name: host name or IP address by which the client calls the server.
  """
  authority, *own = _pems(server)
  echo = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
  listening = grpc.server(
    futures.ThreadPoolExecutor(1),
    [grpc.method_handlers_generic_handler("ray", {"call": echo})],
  )
  port = listening.add_secure_port(
    "127.0.0.1:0", grpc.ssl_server_credentials([tuple(own)], authority, True)
  )
  listening.start()
  try:
    with grpc.secure_channel(
      f"127.0.0.1:{port}",
      grpc.ssl_channel_credentials(*_pems(client)),
      [("grpc.ssl_target_name_override", name)],
    ) as channel:
      channel.unary_unary("/ray/call")(b"x", timeout=10.0)
  except grpc.RpcError as error:
    return error.details()
  finally:
    listening.stop(None)
  return None


def test_machines_with_one_token_connect(monkeypatch, tmp_path):
  here = cluster_keys.make_identity(_TOKEN, ["192.0.2.7", "head.example"])
  monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
  there = cluster_keys.make_identity(_TOKEN)
  assert there.folder.parent != here.folder.parent
  for name in ("192.0.2.7", "head.example", "127.0.0.1", socket.gethostname()):
    assert _call(here, there, name) is None
  assert _call(there, here, "localhost") is None
  # The identity was not made for this address.
  error = _call(there, here, "192.0.2.7")
  assert error is not None and "Hostname Verification Check failed" in error


def test_a_machine_with_another_token_is_rejected():
  here, there = (
    cluster_keys.make_identity(token) for token in (_TOKEN, _TOKEN[1:])
  )
  for one, other in ((here, there), (there, here)):
    assert "signature failure" in _call(one, other, "localhost")


def test_an_identity_is_made_once_and_is_private():
  made = cluster_keys.make_identity(_TOKEN)
  folder = made.folder
  paths = [folder.parent, folder, *folder.iterdir()]
  before = [path.stat() for path in paths]
  assert all(stat.S_IMODE(was.st_mode) & 0o077 == 0 for was in before)
  assert cluster_keys.make_identity(_TOKEN) == made
  assert [path.stat().st_mtime_ns for path in paths] == [
    was.st_mtime_ns for was in before
  ]
  assert cluster_keys.make_identity(_TOKEN, ["192.0.2.7"]) != made


def _make(token, queue):
  queue.put(cluster_keys.make_identity(token))


def test_processes_that_make_an_identity_at_once_share_it():
  context = multiprocessing.get_context("fork")
  queue = context.Queue()
  processes = [
    context.Process(target=_make, args=(_TOKEN, queue)) for _ in range(4)
  ]
  for process in processes:
    process.start()
  (made,) = {queue.get(timeout=30) for _ in processes}
  for process in processes:
    process.join()
    assert process.exitcode == 0
  assert list(made.folder.parent.iterdir()) == [made.folder]
  assert _call(made, made, "localhost") is None


def test_a_machine_uses_the_identity_of_its_ray(monkeypatch):
  made = cluster_keys.make_identity(_TOKEN, ["192.0.2.7"])
  # start.sh sets these variables, too.
  for name, value in cluster_keys.make_environment_variables(made).items():
    monkeypatch.setenv(name, value)
  assert cluster_keys.find_identity() == made


@pytest.mark.parametrize("certificate", ["", "/etc/ssl/of-another.pem"])
def test_without_rays_certificate_the_token_is_used(monkeypatch, certificate):
  monkeypatch.setenv("RAY_TLS_SERVER_CERT", certificate)
  with pytest.raises(ValueError, match="no token in ~/"):
    cluster_keys.find_identity()
  monkeypatch.setenv("RAY_AUTH_TOKEN", _TOKEN)
  assert cluster_keys.find_identity() == cluster_keys.make_identity(_TOKEN)


def test_where_the_token_is(home, monkeypatch):
  assert cluster_keys.read_token() == ""
  assert cluster_keys.token_source() == "~/.ray/auth_token"
  (home / ".ray").mkdir()
  (home / ".ray" / "auth_token").write_text("of the user\n")
  assert cluster_keys.read_token() == "of the user"
  (home / "file").write_text("of a file")
  monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "~/file")
  assert (cluster_keys.read_token(), cluster_keys.token_source()) == (
    "of a file",
    "~/file",
  )
  monkeypatch.setenv("RAY_AUTH_TOKEN", "given")
  assert cluster_keys.read_token() == "given"
  assert cluster_keys.token_source() == "RAY_AUTH_TOKEN"


def test_a_token_that_cannot_be_read(home, monkeypatch):
  (home / "binary").write_bytes(b"\xff\xfe\x00")
  for name in (home, home / "binary"):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(name))
    with pytest.raises(ValueError, match=str(name)) as caught:
      cluster_keys.read_token()
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named_in_one_line(home):
  (home / ".ray").write_text("a file")
  with pytest.raises(ValueError, match=r"\.ray/slipway") as caught:
    cluster_keys.make_identity(_TOKEN)
  assert "\n" not in str(caught.value)


def test_a_shell_evaluates_the_printed_variables(home, monkeypatch):
  odd = home / "it's a home"
  odd.mkdir()
  monkeypatch.setenv("HOME", str(odd))
  monkeypatch.setenv("RAY_AUTH_TOKEN", _TOKEN)
  module = "slipway.launch.machines.cluster_keys"
  script = f'keys=$("$0" -m {module}) && eval "$keys" && env'
  printed = subprocess.run(
    ["sh", "-c", script, sys.executable],
    capture_output=True,
    text=True,
    check=True,
  ).stdout
  variables = dict(line.partition("=")[::2] for line in printed.splitlines())
  expected = cluster_keys.make_environment_variables(
    cluster_keys.make_identity(_TOKEN)
  )
  assert expected.items() <= variables.items()
