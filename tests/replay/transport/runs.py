"""TLS identities of a cluster's machines, and a client without one."""

import pathlib
import ssl

from slipway.launch.machines import authority
from slipway.replay.transport import certificates


def identity(
  folder: pathlib.Path,
  name: str = "machine",
  *addresses: str,
  cluster: str = "cluster",
) -> certificates.Identity:
  """Issues the identity of a machine of a cluster.

  Args:
    folder: folder of the test.
    name: name of the machine.
    *addresses: further names; 127.0.0.1 always is one.
    cluster: name of the cluster, which has an authority of its own.
  """
  made = authority.Authority(folder / cluster)
  return made.issue([name, *addresses])


def anonymous_client_context() -> ssl.SSLContext:
  """Returns a client context without certificate, which trusts all servers."""
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
  context.check_hostname = False
  context.verify_mode = ssl.CERT_NONE
  return context
