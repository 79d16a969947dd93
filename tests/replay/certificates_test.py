"""Tests of who is let in by a run's certificates, and who can read its keys."""

import contextlib
import datetime
import os
import ssl
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from replay import certificates, relay_tls
from tests.replay import runs


@pytest.fixture
def authority(tmp_path):
  return runs.authority(tmp_path)


def _shake(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
  """Lets both meet, in memory; returns the protocol, or raises SSLError."""
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


def test_machines_of_a_run_meet(authority, tmp_path):
  one = runs.identity(tmp_path, authority, "one")
  runs.identity(tmp_path, authority, "two")
  two = certificates.Identity.open(tmp_path / "two")
  assert _shake(one.server_context(), two.client_context()) == "TLSv1.3"
  assert _shake(two.server_context(), one.client_context()) == "TLSv1.3"


def test_a_resumed_run_signs_for_the_same_machines(authority, tmp_path):
  one = runs.identity(tmp_path, authority, "one")
  again = certificates.Authority.open(tmp_path / "authority")
  assert again.certificate == authority.certificate
  two = runs.identity(tmp_path, again, "two")
  _shake(one.server_context(), two.client_context())
  with pytest.raises(OSError, match="authority"):
    certificates.Authority.create(tmp_path / "authority")


def test_an_authority_is_never_half_there(tmp_path, monkeypatch):
  folder = tmp_path / "authority"
  with monkeypatch.context() as patch:
    patch.setattr(certificates, "AUTHORITY", "no such folder/authority.pem")
    with pytest.raises(FileNotFoundError):
      certificates.Authority.create(folder)
  assert not folder.exists()
  made = certificates.Authority.create(folder)
  assert certificates.Authority.open(folder).fingerprint == made.fingerprint
  assert list(tmp_path.iterdir()) == [folder]


def test_a_machine_of_another_run_is_refused_by_both(authority, tmp_path):
  mine = runs.identity(tmp_path, authority, "mine")
  (tmp_path / "other").mkdir()
  other = runs.identity(tmp_path, runs.authority(tmp_path / "other"), "others")
  trusting = other.client_context()
  trusting.check_hostname = False
  trusting.verify_mode = ssl.CERT_NONE
  with pytest.raises(ssl.SSLError, match=r"unknown ca|verify failed"):
    _shake(mine.server_context(), trusting)
  trusting = other.server_context()
  trusting.verify_mode = ssl.CERT_NONE
  with pytest.raises(ssl.SSLError, match="verify failed"):
    _shake(trusting, mine.client_context())


def test_a_client_without_a_certificate_is_refused(authority, tmp_path):
  mine = runs.identity(tmp_path, authority)
  with pytest.raises(ssl.SSLError, match="did not return a certificate"):
    _shake(mine.server_context(), runs.nobody())


@pytest.mark.parametrize(
  ("limit", "days"), [("_AFTER", -0.5), ("_BEFORE", -0.5)]
)
def test_a_certificate_out_of_its_time_is_refused(
  authority, tmp_path, monkeypatch, limit, days
):
  mine = runs.identity(tmp_path, authority, "mine")
  monkeypatch.setattr(certificates, limit, datetime.timedelta(days=days))
  late = runs.identity(tmp_path, authority, "late")
  with pytest.raises(ssl.SSLError, match=r"expired|not yet valid"):
    _shake(mine.server_context(), late.client_context())


def test_a_machine_of_another_name_is_refused(authority, tmp_path):
  mine = runs.identity(tmp_path, authority, "mine")
  other = certificates.Identity.make(tmp_path / "other")
  signed = authority.sign(other.request, "other", ["elsewhere", "192.0.2.7"])
  other.accept(signed, authority.certificate)
  with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
    _shake(other.server_context(), mine.client_context())


def test_a_machine_can_make_no_machines(authority, tmp_path):
  mine = runs.identity(tmp_path, authority, "mine")
  folder = tmp_path / "forged"
  folder.mkdir(0o700)
  # A machine's own key and certificate, taken for an authority's.
  for name, source in (("key", "key"), ("authority", "certificate")):
    (folder / f"{name}.pem").write_bytes(
      (tmp_path / "mine" / f"{source}.pem").read_bytes()
    )
  forger = certificates.Authority.open(folder)
  forged = runs.identity(tmp_path, forger, "machine")
  client = forged.client_context()
  client.check_hostname = False
  client.verify_mode = ssl.CERT_NONE
  client.load_verify_locations(folder / "authority.pem")
  with pytest.raises(
    ssl.SSLError, match=r"verify failed|unknown ca|invalid CA"
  ):
    _shake(mine.server_context(), client)


def test_keys_are_this_users_alone_whatever_the_umask(tmp_path):
  before = os.umask(0)
  try:
    runs.identity(tmp_path, runs.authority(tmp_path))
    os.umask(0o777)
    (tmp_path / "strict").mkdir()
    os.chmod(tmp_path / "strict", 0o700)
    runs.identity(tmp_path / "strict", runs.authority(tmp_path / "strict"))
  finally:
    os.umask(before)
  for parent in (tmp_path, tmp_path / "strict"):
    for folder, count in (("authority", 2), ("machine", 3)):
      paths = list((parent / folder).iterdir())
      assert len(paths) == count
      assert _rights(parent / folder) == 0o700
      assert {_rights(path) for path in paths} == {0o600}


def _rights(path) -> int:
  return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_that_others_may_read_is_refused(authority, tmp_path):
  runs.identity(tmp_path, authority)
  for folder, opening in (
    ("authority", certificates.Authority.open),
    ("machine", certificates.Identity.open),
  ):
    os.chmod(tmp_path / folder, 0o750)
    with pytest.raises(ValueError, match=f"{folder}' is open to other users"):
      opening(tmp_path / folder)


def test_an_identity_that_is_not_signed_opens_nothing(tmp_path):
  made = certificates.Identity.make(tmp_path / "machine")
  with pytest.raises(ValueError, match=r"certificate\.pem' can't be read"):
    certificates.Identity.open(tmp_path / "machine")
  with pytest.raises(ValueError, match=r"certificate\.pem' can't be read"):
    made.server_context()
  with pytest.raises(ValueError, match=r"key\.pem' can't be read"):
    certificates.Authority.open(tmp_path / "nothing")


def test_what_does_not_belong_together_is_not_accepted(authority, tmp_path):
  one = certificates.Identity.make(tmp_path / "one")
  two = certificates.Identity.make(tmp_path / "two")
  signed = authority.sign(two.request, "two")
  with pytest.raises(ValueError, match="for another key"):
    one.accept(signed, authority.certificate)
  (tmp_path / "other").mkdir()
  other = runs.authority(tmp_path / "other")
  with pytest.raises(ValueError, match="of another authority"):
    two.accept(signed, other.certificate)
  two.accept(signed, authority.certificate)
  two.client_context()


def test_a_request_that_was_changed_is_not_signed(authority, tmp_path):
  request = certificates.Identity.make(tmp_path / "one").request
  der = x509.load_pem_x509_csr(request).public_bytes(_DER)
  changed = x509.load_der_x509_csr(der[:-1] + bytes([der[-1] ^ 1]))
  with pytest.raises(ValueError, match="'one' is not signed by the key"):
    authority.sign(changed.public_bytes(_PEM), "one")


_DER, _PEM = (
  serialization.Encoding.DER,
  serialization.Encoding.PEM,
)
