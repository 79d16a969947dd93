"""Tests of mutual TLS between machines, and of the permissions of keys."""

import contextlib
import datetime
import os
import ssl
import stat
import threading

import pytest
from cryptography.hazmat.primitives import serialization

from slipway.replay.transport import certificates, relay_tls
from tests.replay.transport import runs


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
  """Runs a TLS handshake in memory.

  Returns:
    The version of the protocol.

  Raises:
    ssl.SSLError: one side rejects the other.
  """
  to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
  ends = [
    client.wrap_bio(to_client, to_server, server_hostname=relay_tls.NAME),
    server.wrap_bio(to_server, to_client, server_side=True),
  ]
  for _ in range(4):
    for end in ends:
      with contextlib.suppress(ssl.SSLWantReadError):
        end.do_handshake()
  ends[0].write(b"x")
  assert ends[1].read() == b"x"
  return ends[0].version()


def test_machines_that_know_the_secret_accept_each_other(tmp_path):
  one = runs.identity(tmp_path, "one")
  # Each machine derives the certificate authority from the secret.
  other = certificates.CertificateAuthority.from_secret("of the cluster")
  two = other.issue(tmp_path / "two", "two")
  assert _shake_hands(one.server_context(), two.client_context()) == "TLSv1.3"
  assert _shake_hands(two.server_context(), one.client_context()) == "TLSv1.3"


def test_machines_of_different_secrets_reject_each_other(tmp_path):
  mine = runs.identity(tmp_path, "mine")
  other = runs.certificate_authority("of another").issue(
    tmp_path / "other", "other"
  )
  trusting = other.client_context()
  trusting.check_hostname = False
  trusting.verify_mode = ssl.CERT_NONE
  with pytest.raises(ssl.SSLError, match=r"unknown ca|verify failed"):
    _shake_hands(mine.server_context(), trusting)
  trusting = other.server_context()
  trusting.verify_mode = ssl.CERT_NONE
  with pytest.raises(ssl.SSLError, match="verify failed"):
    _shake_hands(trusting, mine.client_context())


def test_a_client_without_a_certificate_is_rejected(tmp_path):
  mine = runs.identity(tmp_path)
  with pytest.raises(ssl.SSLError, match="did not return a certificate"):
    _shake_hands(mine.server_context(), runs.anonymous_client_context())


@pytest.mark.parametrize(
  ("limit", "days"),
  [("_VALID_AFTER_ISSUE", -0.5), ("_VALID_BEFORE_ISSUE", -0.5)],
)
def test_a_certificate_outside_its_validity_is_rejected(
  tmp_path, monkeypatch, limit, days
):
  mine = runs.identity(tmp_path, "mine")
  monkeypatch.setattr(certificates, limit, datetime.timedelta(days=days))
  late = runs.identity(tmp_path, "late")
  with pytest.raises(ssl.SSLError, match=r"expired|not yet valid"):
    _shake_hands(mine.server_context(), late.client_context())


def test_a_machine_of_another_name_is_rejected(tmp_path):
  mine = runs.identity(tmp_path, "mine")
  other = runs.certificate_authority().issue(
    tmp_path / "other", "other", ["elsewhere", "192.0.2.7"]
  )
  with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
    _shake_hands(other.server_context(), mine.client_context())


def test_a_machine_can_issue_no_identities(tmp_path):
  mine = runs.identity(tmp_path, "mine")
  # The machine's own key and certificate, used as a certificate authority's.
  pem = (mine.folder / certificates.KEY).read_bytes()
  certificate = mine.folder / certificates.CERTIFICATE
  forger = certificates.CertificateAuthority(
    serialization.load_pem_private_key(pem, None), certificate.read_bytes()
  )
  client = forger.issue(tmp_path / "forged", "forged").client_context()
  client.check_hostname = False
  client.verify_mode = ssl.CERT_NONE
  client.load_verify_locations(certificate)
  with pytest.raises(
    ssl.SSLError, match=r"verify failed|unknown ca|invalid CA"
  ):
    _shake_hands(mine.server_context(), client)


@pytest.mark.parametrize("umask", [0, 0o777])
def test_keys_are_private_to_this_user_with_any_umask(tmp_path, umask):
  before = os.umask(umask)
  try:
    folder = runs.identity(tmp_path).folder
  finally:
    os.umask(before)
  assert _permissions(folder) == 0o700
  assert [_permissions(path) for path in folder.iterdir()] == [0o600] * 3


def _permissions(path) -> int:
  return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_that_other_users_can_read_is_rejected(tmp_path):
  made = runs.identity(tmp_path)
  made.folder.chmod(0o750)
  with pytest.raises(ValueError, match="machine' is open to other users"):
    made.server_context()


def test_an_identity_is_complete_or_missing(tmp_path):
  made = certificates.Identity(tmp_path / "machine")
  with pytest.raises(ValueError, match="machine' cannot be read"):
    made.client_context()
  threads = [
    threading.Thread(target=runs.identity, args=(tmp_path,)) for _ in range(4)
  ]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert list(tmp_path.iterdir()) == [made.folder]
  made.client_context()
  with pytest.raises(OSError, match="missing"):
    runs.identity(tmp_path / "missing")
