"""Tests of mutual TLS between machines, and of checks of their files."""

import contextlib
import dataclasses
import pathlib
import ssl

import pytest

from slipway.launch.machines import authority
from slipway.replay.transport import certificates
from tests.replay.transport import runs

_HOST = "127.0.0.1"


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
  """Runs a TLS handshake in memory.

  Returns:
    The version of the protocol.

  Raises:
    ssl.SSLError: one side rejects the other.
  """
  to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
  ends = [
    client.wrap_bio(to_client, to_server, server_hostname=_HOST),
    server.wrap_bio(to_server, to_client, server_side=True),
  ]
  for _ in range(4):
    for end in ends:
      with contextlib.suppress(ssl.SSLWantReadError):
        end.do_handshake()
  ends[0].write(b"x")
  assert ends[1].read() == b"x"
  return ends[0].version()


def _check_rejected(identity: certificates.Identity, *words: str) -> None:
  with pytest.raises(ValueError) as caught:
    identity.check()
  line = str(caught.value)
  assert "\n" not in line
  for word in words:
    assert word in line, line


def test_machines_of_one_authority_accept_each_other(tmp_path):
  one, two = (runs.identity(tmp_path, name) for name in ("one", "two"))
  for identity in (one, two):
    identity.check()
  assert _shake_hands(one.server_context(), two.client_context()) == "TLSv1.3"
  assert _shake_hands(two.server_context(), one.client_context()) == "TLSv1.3"


def test_machines_of_different_authorities_reject_each_other(tmp_path):
  mine = runs.identity(tmp_path)
  other = runs.identity(tmp_path, cluster="other")
  trusting = other.client_context()
  trusting.check_hostname = False
  trusting.verify_mode = ssl.CERT_NONE
  with pytest.raises(ssl.SSLError, match=r"unknown ca|verify failed"):
    _shake_hands(mine.server_context(), trusting)
  trusting = other.server_context()
  trusting.verify_mode = ssl.CERT_NONE
  with pytest.raises(ssl.SSLError, match="verify failed"):
    _shake_hands(trusting, mine.client_context())
  _check_rejected(
    dataclasses.replace(mine, authority=other.authority), mine.certificate
  )


def test_a_client_without_a_certificate_is_rejected(tmp_path):
  mine = runs.identity(tmp_path)
  with pytest.raises(ssl.SSLError, match="did not return a certificate"):
    _shake_hands(mine.server_context(), runs.anonymous_client_context())


@pytest.mark.parametrize(
  ("limit", "days", "reason"),
  [("_DAYS_AFTER", -0.5, "expired"), ("_DAYS_BEFORE", -0.5, "not yet valid")],
)
def test_a_certificate_outside_its_validity_is_rejected(
  tmp_path, monkeypatch, limit, days, reason
):
  mine = runs.identity(tmp_path, "mine")
  monkeypatch.setattr(authority, limit, days)
  late = runs.identity(tmp_path, "late")
  with pytest.raises(ssl.SSLError, match=reason):
    _shake_hands(mine.server_context(), late.client_context())
  _check_rejected(late, late.certificate, reason)


def test_a_machine_of_another_address_is_rejected(tmp_path):
  mine, other = (runs.identity(tmp_path, name) for name in ("one", "192.0.2.7"))
  client = mine.client_context()
  ends = ssl.MemoryBIO(), ssl.MemoryBIO()
  near = client.wrap_bio(*ends, server_hostname="192.0.2.8")
  far = other.server_context().wrap_bio(*ends[::-1], server_side=True)
  with pytest.raises(ssl.SSLError, match="IP address mismatch"):
    for end in (near, far) * 3:
      with contextlib.suppress(ssl.SSLWantReadError):
        end.do_handshake()


def test_a_machine_can_issue_no_identities(tmp_path):
  mine = runs.identity(tmp_path)
  # The machine's own key and certificate, used as a certificate authority's.
  forger = tmp_path / "forger"
  forger.mkdir()
  for path, name in (
    (mine.key, "authority-key.pem"),
    (mine.certificate, authority.AUTHORITY),
  ):
    (forger / name).write_bytes(pathlib.Path(path).read_bytes())
  client = authority.Authority(forger).issue(["forged"]).client_context()
  client.check_hostname = False
  client.verify_mode = ssl.CERT_NONE
  client.load_verify_locations(mine.certificate)
  with pytest.raises(
    ssl.SSLError, match=r"verify failed|unknown ca|invalid CA"
  ):
    _shake_hands(mine.server_context(), client)


def test_files_that_are_no_identity_are_rejected(tmp_path):
  mine, other = (runs.identity(tmp_path, name) for name in ("mine", "other"))
  missing = str(tmp_path / "missing")
  for name in ("certificate", "key", "authority"):
    for path in (missing, __file__):
      _check_rejected(dataclasses.replace(mine, **{name: path}), path)
  _check_rejected(dataclasses.replace(mine, key=other.key), "mismatch")


def test_a_key_that_other_users_can_read_is_rejected(tmp_path):
  mine = runs.identity(tmp_path)
  pathlib.Path(mine.key).chmod(0o604)
  _check_rejected(mine, mine.key, "open to all users")
