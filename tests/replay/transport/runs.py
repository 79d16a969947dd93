"""TLS identities of a cluster's machines, and a client without one."""

import functools
import pathlib
import ssl

from slipway.replay.transport import certificates


@functools.cache  # The key derivation is slow on purpose.
def certificate_authority(
  secret: str = "of the cluster",
) -> certificates.CertificateAuthority:
  """Returns the certificate authority of machines that know a secret."""
  return certificates.CertificateAuthority.from_secret(secret)


def identity(
  folder: pathlib.Path, name: str = "machine"
) -> certificates.Identity:
  """Issues the identity of a machine of the cluster."""
  return certificate_authority().issue(folder / name, name)


def anonymous_client_context() -> ssl.SSLContext:
  """Returns a client context without certificate, which trusts all servers."""
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
  context.check_hostname = False
  context.verify_mode = ssl.CERT_NONE
  return context
