"""Certificates: a machine's TLS identity in a cluster.

All machines of a cluster have certificates of one authority, by which they
authenticate each other.
"""

import contextlib
import dataclasses
import os
import ssl
import stat


@dataclasses.dataclass(frozen=True)
class Identity:
  """Paths of a machine's TLS files, in the format PEM.

  ```python
  identity = Identity(certificate, key, authority)
  identity.check()
  identity.server_context()  # an ssl.SSLContext, as client_context() is
  ```

  Attributes:
    certificate: the machine's certificate.
    key: private key of the certificate.
    authority: certificate of the authority that has issued the certificates of
      all machines.
  """

  certificate: str
  key: str
  authority: str

  def check(self) -> None:
    """Checks that a machine with the same authority accepts this identity.

    Raises:
      ValueError: a file can't be used, the key may be read by other users, or
        the certificate has expired or is not the authority's.
    """
    client, server = self.client_context(), self.server_context()
    client.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
      client.wrap_bio(to_client, to_server),
      server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
      for end in (*ends, *ends):  # the steps of a handshake with itself
        with contextlib.suppress(ssl.SSLWantReadError):
          end.do_handshake()
    except ssl.SSLCertVerificationError as error:
      raise ValueError(
        f"the certificate {self.certificate!r} is not valid for the authority "
        f"{self.authority!r} ({error.verify_message}), so no other machine "
        "would accept this one: make a new one with that authority"
      ) from error

  def server_context(self) -> ssl.SSLContext:
    """Returns a TLS context for servers.

    The context accepts only clients with a certificate of the same authority.

    Raises:
      ValueError: a file can't be used, or other users can read the key.
    """
    context = self._make_context(ssl.PROTOCOL_TLS_SERVER)
    # No session tickets: no client resumes a session.
    context.num_tickets = 0
    return context

  def client_context(self) -> ssl.SSLContext:
    """Returns a TLS context for clients.

    The context accepts only servers with a certificate of the same authority
    for the name or address to which the client connects.

    Raises:
      ValueError: a file can't be used, or other users can read the key.
    """
    return self._make_context(ssl.PROTOCOL_TLS_CLIENT)

  def _make_context(self, protocol: int) -> ssl.SSLContext:
    """Returns a TLS 1.3 context that verifies the peer's certificate."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
      is_open = os.stat(self.key).st_mode & (stat.S_IROTH | stat.S_IWOTH)
      # The password of a key that has one is wrong, instead of prompted for.
      context.load_cert_chain(self.certificate, self.key, password="")
      context.load_verify_locations(self.authority)
    except OSError as error:
      raise ValueError(
        f"{self.certificate!r}, {self.key!r} and {self.authority!r} are not a "
        "certificate, its private key and the authority's certificate "
        f"({error}), so no other machine would accept this one: give readable "
        "files in the format PEM"
      ) from error
    if is_open:
      raise ValueError(
        f"the private key {self.key!r} is open to all users of this machine, "
        "who may have copied it: make a new authority and certificates"
      )
    return context
