"""Tests of the certificates of a cluster's machines, and their use by Ray."""

import os
import pathlib
import socket
import stat
from concurrent import futures

import grpc
import pytest

from slipway.launch.commands import cli
from slipway.launch.machines import admission, authority
from slipway.replay.transport import certificates


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
  """Makes a home directory without certificates, and returns it."""
  monkeypatch.setenv("HOME", str(tmp_path / "home"))
  for name in [x for x in os.environ if x.startswith("RAY_")]:
    monkeypatch.delenv(name)
  before = {x: y for x, y in os.environ.items() if x.startswith("RAY_")}
  yield tmp_path / "home"
  for name in [x for x in os.environ if x.startswith("RAY_")]:
    if name not in before:
      del os.environ[name]


def make(folder, hosts):
  return cli.run(["slipway", "certificates", str(folder), f"--hosts={hosts}"])


def read(folder):
  """Returns the identity in a machine's folder."""
  names = (authority.CERTIFICATE, authority.KEY, authority.AUTHORITY)
  return certificates.Identity(*(str(folder / name) for name in names))


def _call(server, client, name):
  """Calls a server by a name, as Ray does, and returns the error, if any.

  Args:
    server: identity of the server's machine.
    client: identity of the client's machine.
    name: host name or IP address by which the client calls the server.
  """

  def read_files(identity):
    paths = (identity.authority, identity.key, identity.certificate)
    return [pathlib.Path(path).read_bytes() for path in paths]

  root, *own = read_files(server)
  echo = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
  listening = grpc.server(
    futures.ThreadPoolExecutor(1),
    [grpc.method_handlers_generic_handler("ray", {"call": echo})],
  )
  port = listening.add_secure_port(
    "127.0.0.1:0", grpc.ssl_server_credentials([tuple(own)], root, True)
  )
  listening.start()
  try:
    with grpc.secure_channel(
      f"127.0.0.1:{port}",
      grpc.ssl_channel_credentials(*read_files(client)),
      [("grpc.ssl_target_name_override", name)],
    ) as channel:
      channel.unary_unary("/ray/call")(b"x", timeout=10.0)
  except grpc.RpcError as error:
    return error.details()
  finally:
    listening.stop(None)
  return None


def test_machines_of_one_folder_connect(tmp_path, capsys):
  folder = tmp_path / "made"
  assert make(folder, "192.0.2.7/head.example,192.0.2.8") == 0
  assert make(folder, "192.0.2.9") == 0  # joins later
  printed = capsys.readouterr().out.splitlines()
  assert printed[0] == f"{folder}/192.0.2.7: 192.0.2.7, head.example"
  assert len(printed) == 3
  head, *others = (read(folder / f"192.0.2.{number}") for number in (7, 8, 9))
  for other in others:
    for name in ("192.0.2.7", "head.example", "127.0.0.1", "localhost"):
      assert _call(head, other, name) is None
    error = _call(other, head, "192.0.2.7")
    assert error is not None and "Hostname Verification Check failed" in error


def test_machines_of_different_folders_reject_each_other(tmp_path):
  for name in ("one", "two"):
    assert make(tmp_path / name, "192.0.2.7") == 0
  one, two = (read(tmp_path / name / "192.0.2.7") for name in ("one", "two"))
  for server, client in ((one, two), (two, one)):
    assert "Tls handshake failed" in _call(server, client, "localhost")


def test_only_this_user_can_read_the_keys(tmp_path):
  before = os.umask(0)
  try:
    assert make(tmp_path / "made", "192.0.2.7") == 0
  finally:
    os.umask(before)
  for path in [tmp_path / "made", *(tmp_path / "made").rglob("*")]:
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


REJECTED = [
  ("made", "", "--hosts are needed"),
  ("", "192.0.2.7", "a folder"),
  ("made", "no such host", "'no such host' is no name"),
  ("made", "../192.0.2.7", "'..' is no name"),
  ("made", "localhost", "no address of it"),
  ("made", "host.invalid", "no address of it"),
  ("file", "192.0.2.7", "can't be used as the folder"),
  ("damaged", "192.0.2.7", "can't be used as the folder"),
  ("full", "192.0.2.7", "remove it to replace"),
]


@pytest.mark.parametrize(("folder", "hosts", "words"), REJECTED)
def test_certificates_that_can_not_be_made(
  tmp_path, monkeypatch, capsys, folder, hosts, words
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "file").touch()
  assert make("full", "192.0.2.7") == 0
  (tmp_path / "damaged").mkdir()
  (tmp_path / "damaged" / "authority-key.pem").write_text("no key")
  (tmp_path / "damaged" / authority.AUTHORITY).write_text("none")
  capsys.readouterr()
  arguments = [folder] if folder else []
  assert (
    cli.run(["slipway", "certificates", *arguments, f"--hosts={hosts}"]) == 2
  )
  error = capsys.readouterr().err
  assert error.count("\n") == 1 and words in error, error


def get_rejection(address, insecure=False):
  with pytest.raises(ValueError) as caught:
    admission.authenticate(address, insecure)
  assert "\n" not in str(caught.value)
  return str(caught.value)


def test_without_certificates_a_flag_is_needed(monkeypatch):
  for tls in (None, "0"):
    if tls:
      monkeypatch.setenv("RAY_USE_TLS", tls)
    line = get_rejection("localhost:1")
    assert "slipway certificates" in line and "--insecure" in line
  assert "does not reply" in get_rejection("localhost:1", insecure=True)


def test_rays_own_variables_and_the_default_folder(tmp_path, home, monkeypatch):
  assert make(tmp_path, "192.0.2.7") == 0
  monkeypatch.setenv("RAY_USE_TLS", "1")
  assert "RAY_TLS_SERVER_KEY" in get_rejection("localhost:1")
  monkeypatch.delenv("RAY_USE_TLS")
  (home / ".ray").mkdir(parents=True)
  (tmp_path / "192.0.2.7").rename(home / ".ray" / "tls")
  identity = read(home / ".ray" / "tls")
  assert admission.find_identity() == identity
  assert os.environ["RAY_USE_TLS"] == "1"
  assert admission.find_identity() == identity  # by the variables
  assert "does not reply" in get_rejection("localhost:1")
  pathlib.Path(identity.key).unlink()
  assert identity.key in get_rejection("localhost:1")


def test_a_head_that_is_not_of_the_cluster(tmp_path, monkeypatch):
  for name in ("one", "two"):
    assert make(tmp_path / name, "192.0.2.7") == 0
  mine, other = (read(tmp_path / x / "192.0.2.7") for x in ("one", "two"))
  monkeypatch.setenv("RAY_USE_TLS", "1")
  monkeypatch.setenv("RAY_TLS_SERVER_CERT", mine.certificate)
  monkeypatch.setenv("RAY_TLS_SERVER_KEY", mine.key)
  monkeypatch.setenv("RAY_TLS_CA_CERT", mine.authority)
  with socket.create_server(("localhost", 0)) as listening:
    address = f"localhost:{listening.getsockname()[1]}"

    def serve(answer):
      with futures.ThreadPoolExecutor(1) as executor:
        serving = executor.submit(lambda: answer(listening.accept()[0]))
        line = get_rejection(address)
        serving.exception()
      return line

    context = other.server_context()
    assert "does not accept" in serve(
      lambda plain: context.wrap_socket(plain, server_side=True)
    )
    assert "uses no TLS" in serve(lambda plain: plain.sendall(b"\0" * 99))
