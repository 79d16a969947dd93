"""Certificates: TLS identities of a cluster's machines.

A cluster has one certificate authority. Its key is derived from a secret that
all machines share. So each machine issues its own identity, and its private key
never leaves the machine.

```python
authority = CertificateAuthority.from_secret(secret)
identity = authority.issue(folder, "machine 3")
identity.server_context()  # An ssl.SSLContext, as client_context() is.
```
"""

import dataclasses
import datetime
import hashlib
import ipaddress
import pathlib
import shutil
import ssl
import tempfile
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf import scrypt
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from slipway.replay.transport import relay_tls

# Time before its issue from which a certificate is valid, as the clocks of
# machines differ.
_VALID_BEFORE_ISSUE = datetime.timedelta(days=1)
# Time after its issue until which a certificate is valid, as a cluster may run
# for years.
_VALID_AFTER_ISSUE = datetime.timedelta(days=3650)

# Order of the elliptic curve P-256 (NIST SP 800-186, 3.2.1.3).
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
# Salt and output length in bytes of scrypt, which derives the authority's key.
_SALT, _KEY_BYTES = b"slipway authority", 40

# Names of the files in the folder of an `Identity`: the machine's private key,
# its certificate, and the certificate of the authority.
KEY, CERTIFICATE, AUTHORITY = "key.pem", "certificate.pem", "authority.pem"


class CertificateAuthority:
  """Certificate authority of a cluster, which issues identities to machines.

  Machines with identities of the same authority trust each other.
  """

  def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: bytes):
    """Stores the arguments; callers use `from_secret`.

    Args:
      key: private key that signs the certificates of machines.
      certificate: certificate of the authority, PEM.
    """
    self._key = key
    self._certificate = certificate

  @classmethod
  def from_secret(cls, secret: str) -> "CertificateAuthority":
    """Makes the authority whose key is derived from the cluster's secret.

    The authority's public key is not secret, so an attacker can check guesses
    of the secret offline. Each guess costs 32 MiB and 0.1 s (scrypt, RFC 7914).

    Args:
      secret: the cluster's token, a long random text.
    """
    stretched = scrypt.Scrypt(_SALT, _KEY_BYTES, n=2**15, r=8, p=1)
    number = int.from_bytes(stretched.derive(secret.encode()), "big")
    # FIPS 186-5, A.2.1: 64 bits more than the order's make the bias negligible.
    key = ec.derive_private_key(number % (_ORDER - 1) + 1, ec.SECP256R1())
    return cls(key, _self_signed(key))

  @property
  def fingerprint(self) -> str:
    """SHA-256 of the authority's public key, as hexadecimal digits."""
    public = self._key.public_key().public_bytes(
      serialization.Encoding.DER,
      serialization.PublicFormat.SubjectPublicKeyInfo,
    )
    return hashlib.sha256(public).hexdigest()

  def issue(
    self,
    folder: pathlib.Path,
    name: str,
    hosts: Sequence[str] = (relay_tls.NAME,),
  ) -> "Identity":
    """Creates a machine's private key and certificate in a new folder.

    Only this user can read the folder. It is created atomically: if several
    processes issue to the same path at once, one succeeds, and all return its
    identity.

    Args:
      folder: path of the new folder, whose parent exists.
      name: subject of the certificate.
      hosts: names and addresses by which clients verify the machine.

    Raises:
      OSError: the files cannot be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    temporary = pathlib.Path(
      tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)
    )
    try:
      temporary.chmod(0o700)  # Independent of the umask.
      for file, data in (
        (KEY, _key_pem(key)),
        (CERTIFICATE, self._sign(key.public_key(), name, hosts)),
        (AUTHORITY, self._certificate),
      ):
        path = temporary / file
        path.write_bytes(data)
        path.chmod(0o600)
      temporary.rename(folder)
    except OSError:
      shutil.rmtree(temporary)
      if not folder.exists():  # Otherwise another process was faster.
        raise
    return Identity(folder)

  def _sign(
    self, key: ec.EllipticCurvePublicKey, name: str, hosts: Sequence[str]
  ) -> bytes:
    """Returns a certificate of a machine, PEM.

    Args:
      key: public key of the machine.
      name: subject of the certificate.
      hosts: names and addresses by which clients verify the machine.
    """
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer = x509.load_pem_x509_certificate(self._certificate).subject
    certificate = (
      _certificate_builder(_subject_name(name), key)
      .issuer_name(issuer)
      .add_extension(x509.BasicConstraints(False, None), critical=True)
      .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
      .add_extension(
        x509.SubjectAlternativeName(
          [_alternative_name(host) for host in hosts]
        ),
        critical=False,
      )
      .sign(self._key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclasses.dataclass(frozen=True)
class Identity:
  """Private key and certificate of a machine, as files in a folder.

  Attributes:
    folder: folder that `CertificateAuthority.issue` has created.
  """

  folder: pathlib.Path

  def server_context(self) -> ssl.SSLContext:
    """Returns a TLS context for servers.

    The context accepts only clients with a certificate of the same authority.

    Raises:
      ValueError: the folder has no identity, or other users may read it.
    """
    context = self._make_context(ssl.PROTOCOL_TLS_SERVER)
    # No session tickets: no client resumes a session.
    context.num_tickets = 0
    return context

  def client_context(self) -> ssl.SSLContext:
    """Returns a TLS context for clients.

    The context accepts only servers with a certificate of the same authority.
    Connect with `server_hostname=relay_tls.NAME`.

    Raises:
      ValueError: the folder has no identity, or other users may read it.
    """
    context = self._make_context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = True
    return context

  def _make_context(self, protocol: int) -> ssl.SSLContext:
    """Returns a TLS 1.3 context that verifies the peer's certificate.

    Args:
      protocol: ssl.PROTOCOL_TLS_SERVER or ssl.PROTOCOL_TLS_CLIENT.

    Raises:
      ValueError: the folder has no identity, or other users may read it.
    """
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
      is_private = self.folder.stat().st_mode & 0o077 == 0
      context.load_cert_chain(self.folder / CERTIFICATE, self.folder / KEY)
      context.load_verify_locations(self.folder / AUTHORITY)
    except OSError as error:
      raise ValueError(
        f"the identity in {str(self.folder)!r} cannot be read ({error}), so no "
        "other machine would accept this one: remove the folder, and start Ray "
        "again on this machine"
      ) from error
    if not is_private:
      raise ValueError(
        f"{str(self.folder)!r} is open to other users, who may have copied its "
        "key: replace the cluster's token, and start Ray again on all machines"
      )
    return context


def _subject_name(name: str) -> x509.Name:
  """Returns an X.509 name with a common name, cut to 64 characters."""
  return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _alternative_name(host: str) -> x509.GeneralName:
  """Returns an X.509 alternative name for an IP address or a DNS name."""
  try:
    return x509.IPAddress(ipaddress.ip_address(host))
  except ValueError:
    return x509.DNSName(host)


def _self_signed(key: ec.EllipticCurvePrivateKey) -> bytes:
  """Returns the self-signed certificate of an authority, PEM.

  Args:
    key: private key of the authority.
  """
  own = _subject_name("slipway")
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
    _certificate_builder(own, key.public_key())
    .issuer_name(own)
    .add_extension(x509.BasicConstraints(True, 0), critical=True)
    .add_extension(usage, critical=True)
    .sign(key, hashes.SHA256())
  )
  return certificate.public_bytes(serialization.Encoding.PEM)


def _certificate_builder(
  subject: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
  """Returns a builder with subject, public key, serial number and validity."""
  now = datetime.datetime.now(datetime.UTC)
  return (
    x509.CertificateBuilder()
    .subject_name(subject)
    .public_key(key)
    .serial_number(x509.random_serial_number())
    .not_valid_before(now - _VALID_BEFORE_ISSUE)
    .not_valid_after(now + _VALID_AFTER_ISSUE)
  )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
  """Returns a private key as unencrypted PEM."""
  return key.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
  )
