"""Machines of a run, and strangers, for tests of what lies between them."""

import pathlib
import ssl

from replay import certificates


def authority(folder: pathlib.Path) -> certificates.Authority:
  """A new run's."""
  return certificates.Authority.create(folder / "authority")


def identity(
  folder: pathlib.Path, of: certificates.Authority, name: str = "machine"
) -> certificates.Identity:
  """A machine's, signed by the run's authority."""
  made = certificates.Identity.make(folder / name)
  made.accept(of.sign(made.request, name), of.certificate)
  return made


def nobody() -> ssl.SSLContext:
  """A client that trusts everybody, and has no certificate."""
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
  context.check_hostname = False
  context.verify_mode = ssl.CERT_NONE
  return context
