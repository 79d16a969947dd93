"""Certificates: who belongs together, and TLS between those that do.

A run has an authority of its own, whose key stays in the run's folder. Each
machine makes its own key and asks the authority for a certificate, so no
private key ever travels. Of a Ray cluster all machines are the authority, by
the token that they share.

```python
authority = Authority.create(run_folder / 'authority')
identity = Identity.make(memory_folder / 'identity')
certificate = authority.sign(identity.request, 'machine 3')
identity.accept(certificate, authority.certificate)
identity.server_context()  # An ssl.SSLContext, as client_context() is.
```
"""

import datetime
import hashlib
import ipaddress
import pathlib
import shutil
import ssl
from collections.abc import Sequence

from cryptography import exceptions, x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf import scrypt
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from replay import key_folder, relay_tls

# Hosts' clocks differ; and a certificate is of no use after its run.
_BEFORE = datetime.timedelta(days=1)
_AFTER = datetime.timedelta(days=3650)

# Of the curve P-256 (NIST SP 800-186, 3.2.1.3).
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_SALT, _KEY_BYTES = b"slipway authority", 40

# The files of an identity.
KEY, CERTIFICATE, AUTHORITY = "key.pem", "certificate.pem", "authority.pem"


class Authority:
  """Says who belongs to one run; whoever has its folder can say so."""

  def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: bytes):
    """Keeps both; see `create` and `open`."""
    self._key = key
    self._issuer = x509.load_pem_x509_certificate(certificate).subject
    self.certificate = certificate

  @classmethod
  def create(cls, folder: pathlib.Path) -> "Authority":
    """Makes an authority, and keeps it in a folder for this user alone.

    Args:
      folder: new; its parent is there. It is whole as soon as it is there.

    Raises:
      OSError: the folder is there, or the disk refuses.
    """
    beside = folder.with_name(f".{folder.name}")
    shutil.rmtree(beside, ignore_errors=True)  # of who died here
    key_folder.make(beside)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _self_signed(key)
    key_folder.write(beside / KEY, _key_pem(key))
    key_folder.write(beside / AUTHORITY, certificate)
    beside.rename(folder)
    return cls(key, certificate)

  @classmethod
  def of_secret(cls, secret: str) -> "Authority":
    """The authority that all are who know a secret; it is kept nowhere.

    Its public key is no secret, so guesses can be tried on it: each costs
    32 MiB and a tenth of a second (RFC 7914).

    Args:
      secret: of many random characters.
    """
    stretched = scrypt.Scrypt(_SALT, _KEY_BYTES, n=2**15, r=8, p=1)
    drawn = int.from_bytes(stretched.derive(secret.encode()), "big")
    # FIPS 186-5, A.2.1: 64 bits more than the order's make the bias negligible.
    key = ec.derive_private_key(drawn % (_ORDER - 1) + 1, ec.SECP256R1())
    return cls(key, _self_signed(key))

  @classmethod
  def open(cls, folder: pathlib.Path) -> "Authority":
    """The authority that `create` has kept there.

    Args:
      folder: as it was given to `create`.

    Raises:
      ValueError: the folder has none, or others may read it.
    """
    key, certificate = key_folder.read(folder, KEY, AUTHORITY)
    return cls(_load_key(folder, key), certificate)

  @property
  def fingerprint(self) -> str:
    """Of its public key: SHA-256 in hexadecimal digits."""
    public = self._key.public_key().public_bytes(
      serialization.Encoding.DER,
      serialization.PublicFormat.SubjectPublicKeyInfo,
    )
    return hashlib.sha256(public).hexdigest()

  def sign(
    self,
    request: bytes,
    name: str,
    hosts: Sequence[str] = (relay_tls.NAME,),
  ) -> bytes:
    """Makes a machine one of those that trust this authority.

    Args:
      request: PEM, of the machine's `Identity.request`.
      name: of the machine; for the eyes of who reads certificates.
      hosts: names and addresses that its clients may know it by.

    Returns:
      Its certificate, PEM.

    Raises:
      ValueError: the request is none, or is not signed by its own key.
    """
    asked = x509.load_pem_x509_csr(request)
    if not asked.is_signature_valid:
      raise ValueError(
        f"the certificate request of {name!r} is not signed by the key it"
        " names: it was changed on its way, so have the machine ask again."
      )
    # What a machine asks for beside its key is not looked at.
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
      _builder(_name(name), asked.public_key())
      .issuer_name(self._issuer)
      .add_extension(x509.BasicConstraints(False, None), critical=True)
      .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
      .add_extension(
        x509.SubjectAlternativeName([_host(host) for host in hosts]),
        critical=False,
      )
      .sign(self._key, hashes.SHA256())
    )
    return _pem(certificate)


class Identity:
  """A machine's key and certificate, in a folder that its processes share."""

  def __init__(self, folder: pathlib.Path):
    """Names the folder; see `make` and `open`."""
    self._folder = folder

  @classmethod
  def make(cls, folder: pathlib.Path) -> "Identity":
    """Makes a key, for which the authority is then to be asked.

    Args:
      folder: in memory; it is this user's alone, and what was there goes.
    """
    shutil.rmtree(folder, ignore_errors=True)
    key_folder.make(folder)
    key_folder.write(
      folder / KEY, _key_pem(ec.generate_private_key(ec.SECP256R1()))
    )
    return cls(folder)

  @classmethod
  def open(cls, folder: pathlib.Path) -> "Identity":
    """The identity that a process of the same machine has made there.

    Args:
      folder: as it was given to `make`.

    Raises:
      ValueError: none was accepted there, or others may read it.
    """
    key_folder.read(folder, KEY, CERTIFICATE, AUTHORITY)
    return cls(folder)

  @property
  def request(self) -> bytes:
    """What the authority is to sign, PEM; has no secret."""
    [key] = key_folder.read(self._folder, KEY)
    request = x509.CertificateSigningRequestBuilder(_name(relay_tls.NAME))
    return _pem(request.sign(_load_key(self._folder, key), hashes.SHA256()))

  def accept(self, certificate: bytes, authority: bytes) -> None:
    """Keeps what the authority has answered.

    Args:
      certificate: PEM, of this machine.
      authority: PEM, the authority's own certificate.

    Raises:
      ValueError: one is no certificate, or they do not belong together.
    """
    [key] = key_folder.read(self._folder, KEY)
    own = _load_key(self._folder, key).public_key()
    signed = x509.load_pem_x509_certificate(certificate)
    if signed.public_key() != own:
      raise ValueError(
        f"a certificate for another key than {str(self._folder / KEY)!r} was"
        " given, which opens no connection: give the one for its request."
      )
    issuer = x509.load_pem_x509_certificate(authority)
    try:
      signed.verify_directly_issued_by(issuer)
    except (ValueError, exceptions.InvalidSignature) as error:
      raise ValueError(
        "a certificate of another authority than the one beside it was given,"
        f" which opens no connection ({error}): give those of one run."
      ) from error
    key_folder.write(self._folder / AUTHORITY, authority)
    key_folder.write(self._folder / CERTIFICATE, certificate)

  def server_context(self) -> ssl.SSLContext:
    """For what listens: serves machines of the run, refuses all others.

    Raises:
      ValueError: no certificate was accepted.
    """
    context = self._context(ssl.PROTOCOL_TLS_SERVER)
    # A session that is resumed skips no check, but nobody here resumes one.
    context.num_tickets = 0
    return context

  def client_context(self) -> ssl.SSLContext:
    """For what connects: to machines of the run alone.

    Connect with `server_hostname=relay_tls.NAME`.

    Raises:
      ValueError: no certificate was accepted.
    """
    context = self._context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = True
    return context

  def _context(self, protocol: int) -> ssl.SSLContext:
    key_folder.read(self._folder, KEY, CERTIFICATE, AUTHORITY)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(self._folder / CERTIFICATE, self._folder / KEY)
    context.load_verify_locations(self._folder / AUTHORITY)
    return context


def _name(name: str) -> x509.Name:
  return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
  try:
    return x509.IPAddress(ipaddress.ip_address(host))
  except ValueError:
    return x509.DNSName(host)


def _self_signed(key: ec.EllipticCurvePrivateKey) -> bytes:
  """An authority's own certificate, PEM."""
  own = _name("slipway")
  usage = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
  )
  certificate = (
    _builder(own, key.public_key())
    .issuer_name(own)
    .add_extension(x509.BasicConstraints(True, 0), critical=True)
    .add_extension(usage, critical=True)
    .sign(key, hashes.SHA256())
  )
  return _pem(certificate)


def _builder(subject: x509.Name, key) -> x509.CertificateBuilder:
  now = datetime.datetime.now(datetime.timezone.utc)
  return (
    x509.CertificateBuilder()
    .subject_name(subject)
    .public_key(key)
    .serial_number(x509.random_serial_number())
    .not_valid_before(now - _BEFORE)
    .not_valid_after(now + _AFTER)
  )


def _pem(signed) -> bytes:
  return signed.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
  return key.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
  )


def _load_key(folder: pathlib.Path, pem: bytes) -> ec.EllipticCurvePrivateKey:
  key = serialization.load_pem_private_key(pem, None)
  if not isinstance(key, ec.EllipticCurvePrivateKey):
    raise ValueError(
      f"{str(folder / KEY)!r} holds another kind of key than a run's, which"
      " no certificate fits: remove the folder, and start the run again."
    )
  return key
