"""Machines of a cluster, and strangers, for tests of what lies between them."""

import functools
import pathlib
import ssl

from slipway.replay.transport import certificates


@functools.cache  # Deriving it is slow on purpose.
def authority(
  secret: str = "of the cluster",
) -> certificates.CertificateAuthority:
  """The authority of the machines that know a secret."""
  return certificates.CertificateAuthority.from_secret(secret)


def identity(
  folder: pathlib.Path, name: str = "machine"
) -> certificates.Identity:
  """A machine's, issued by the authority of the cluster."""
  return authority().issue(folder / name, name)


def nobody() -> ssl.SSLContext:
  """A client that trusts everybody, and has no certificate."""
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
  context.check_hostname = False
  context.verify_mode = ssl.CERT_NONE
  return context
