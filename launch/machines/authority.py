"""The command `slipway certificates`, a cluster's certificate authority."""

import datetime
import ipaddress
import os
import pathlib
import re
import socket
import typing
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from slipway.launch.checks import flags as flags_lib
from slipway.launch.runs import run_folder
from slipway.replay.transport import certificates

# Sentences that begin the help.
_USAGE = """\
Makes the certificates by which the machines of a Ray cluster authenticate.

  slipway certificates certificates --hosts=10.0.0.1,10.0.0.2

Copy certificates/10.0.0.1 to ~/.ray/tls on 10.0.0.1, and so on. Repeat the
command with other hosts for machines that join later. Whoever has the folder
can make certificates: keep it private."""

# Names of the files in a machine's folder.
CERTIFICATE, KEY, AUTHORITY = "certificate.pem", "key.pem", "authority.pem"
# Name of the file with the authority's private key.
_AUTHORITY_KEY = "authority-key.pem"
# Days before and after its issue for which a certificate is valid, as clocks
# of machines differ, and a cluster may run for years.
_DAYS_BEFORE, _DAYS_AFTER = 1, 3650
_NAME = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:_-]*")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def main(argv: Sequence[str]) -> None:
  """Makes a certificate per host, and prints its folder.

  Args:
    argv: the program's name, the folder, and flags.

  Raises:
    ValueError: a certificate can't be made, or a flag is invalid.
  """
  flags = flags_lib.Flags()
  flags.add_text(
    "hosts",
    "",
    "Names or addresses of the machines, separated by commas. A/B/C is one "
    "machine with three names, or several machines that share a certificate.",
  )
  folders = flags.parse(argv, _USAGE, has_words=True)
  hosts = [x.strip() for x in flags.hosts.split(",")] if flags.hosts else []
  if len(folders) != 1 or not hosts:
    raise ValueError(
      "a folder and --hosts are needed, so nothing was made: give, for "
      "example, slipway certificates certificates --hosts=10.0.0.1,10.0.0.2"
    )
  all_names = [_find_names(host) for host in hosts]
  authority = Authority(run_folder.expand(folders[0]))
  for names in all_names:
    identity = authority.issue(names)
    print(f"{os.path.dirname(identity.key)}: {', '.join(names)}")


class Authority:
  """Issues certificates, with a private key that is kept in a folder."""

  def __init__(self, folder: pathlib.Path):
    """Reads the authority in a folder, or makes a new one there.

    Raises:
      ValueError: the folder can't be read or written, or has another content.
    """
    self._folder = folder
    try:
      folder.mkdir(mode=0o700, parents=True, exist_ok=True)
      if not (folder / _AUTHORITY_KEY).exists():
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / AUTHORITY, _sign(key, key, ["slipway"], None))
        _write(folder / _AUTHORITY_KEY, _to_pem(key))
      self._certificate = (folder / AUTHORITY).read_bytes()
      pem = (folder / _AUTHORITY_KEY).read_bytes()
      self._key: typing.Any = serialization.load_pem_private_key(pem, None)
      self._issuer = x509.load_pem_x509_certificate(self._certificate).subject
    except (OSError, ValueError, TypeError) as error:
      raise ValueError(
        f"{str(folder)!r} can't be used as the folder of an authority "
        f"({error}), so no certificate was made: give a new folder"
      ) from error

  def issue(self, names: Sequence[str]) -> certificates.Identity:
    """Makes a private key and a certificate, in a folder of the first name.

    Args:
      names: names and addresses by which other machines reach the machine.

    Raises:
      ValueError: the folder exists, or can't be written.
    """
    folder = self._folder / names[0]
    key = ec.generate_private_key(ec.SECP256R1())
    pem = _sign(self._key, key, [*names, *_LOOPBACK], self._issuer)
    try:
      folder.mkdir(mode=0o700)
      _write(folder / KEY, _to_pem(key))
      _write(folder / CERTIFICATE, pem)
      _write(folder / AUTHORITY, self._certificate)
    except OSError as error:
      raise ValueError(
        f"{str(folder)!r} can't be made ({error.strerror}), so it has no new "
        "certificate: remove it to replace the certificate"
      ) from error
    return certificates.Identity(
      *(str(folder / name) for name in (CERTIFICATE, KEY, AUTHORITY))
    )


def _find_names(host: str) -> list[str]:
  """Returns the names in A/B/C, and the addresses of these names."""
  names, addresses = host.split("/"), set()
  for name in names:
    if not _NAME.fullmatch(name):
      raise ValueError(
        f"--hosts={host}: {name!r} is no name or address of a machine, so "
        "nothing was made: give names like 'head' or '10.0.0.1'"
      )
    try:
      addresses |= {str(found[4][0]) for found in socket.getaddrinfo(name, 0)}
    except OSError:  # no name that this machine knows
      continue
  usable = [x for x in addresses if not ipaddress.ip_address(x).is_loopback]
  if not usable:
    raise ValueError(
      f"--hosts={host}: this machine knows no address of it that other "
      "machines can reach, so nothing was made: give NAME/ADDRESS"
    )
  return [*names, *sorted(set(usable).difference(names))]


def _sign(
  signer: ec.EllipticCurvePrivateKey,
  key: ec.EllipticCurvePrivateKey,
  names: Sequence[str],
  issuer: x509.Name | None,
) -> bytes:
  """Returns a machine's certificate; without an issuer, an authority's."""
  now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
  subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
  is_authority = issuer is None
  builder = (
    x509.CertificateBuilder()
    .subject_name(subject)
    .issuer_name(issuer or subject)
    .public_key(key.public_key())
    .serial_number(x509.random_serial_number())
    .not_valid_before(now - _DAYS_BEFORE * day)
    .not_valid_after(now + _DAYS_AFTER * day)
    .add_extension(
      x509.BasicConstraints(is_authority, 0 if is_authority else None), True
    )
  )
  if not is_authority:
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    others = [_to_general_name(name) for name in names]
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
    builder = builder.add_extension(x509.SubjectAlternativeName(others), False)
  certificate = builder.sign(signer, hashes.SHA256())
  return certificate.public_bytes(serialization.Encoding.PEM)


def _to_general_name(name: str) -> x509.GeneralName:
  """Returns an X.509 name for an IP address or a DNS name."""
  try:
    return x509.IPAddress(ipaddress.ip_address(name))
  except ValueError:
    return x509.DNSName(name)


def _to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
  """Returns a private key as unencrypted PEM."""
  return key.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
  )


def _write(path: pathlib.Path, content: bytes) -> None:
  """Writes a new file that only this user can read."""
  path.touch(mode=0o600, exist_ok=False)
  path.write_bytes(content)
