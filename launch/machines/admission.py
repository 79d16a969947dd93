"""Admission: checks a Ray cluster and the credentials for it.

`authenticate` sets environment variables that Ray reads when it is imported. So
it must be called before `slipway.launch.machines.cluster` is imported.
"""

import os
import pathlib
import socket
import ssl

from slipway.launch.machines import authority
from slipway.replay.transport import certificates

# Seconds that Ray's head node may take to reply.
_PROBE_TIMEOUT_S = 5.0
# Environment variable that makes Ray use TLS.
_TLS = "RAY_USE_TLS"
# Environment variables with the paths of the files that Ray then uses, and the
# names of these files in `_FOLDER`.
_FILES = {
  "RAY_TLS_SERVER_CERT": authority.CERTIFICATE,
  "RAY_TLS_SERVER_KEY": authority.KEY,
  "RAY_TLS_CA_CERT": authority.AUTHORITY,
}
# Folder whose files are used if `_TLS` is not set; start.sh uses it, too.
_FOLDER = pathlib.Path("~/.ray/tls")
# File from which Ray reads its token by default.
_TOKEN = pathlib.Path("~/.ray/auth_token")


def authenticate(given: str | None, insecure: bool) -> str:
  """Configures Ray in this process with the credentials of a cluster.

  Args:
    given: 'host:port' of Ray's head node, or None for the value of RAY_ADDRESS.
    insecure: whether a cluster without TLS is accepted.

  Returns:
    'host:port' of Ray's head node.

  Raises:
    ValueError: no cluster replies at the address, the cluster is not secure, or
      this machine has no valid credentials for it.
  """
  address = _parse_address(given)
  identity = find_identity()
  if identity is not None:
    identity.check()
  elif not insecure:
    raise ValueError(
      f"this machine has no certificate for the Ray cluster at {address}, so "
      "anyone on the network could read and change the run: give "
      f"{_FOLDER}/ the files of `slipway certificates`, set {_TLS}=1 and "
      f"{', '.join(_FILES)}, or give --insecure on a private network"
    )
  _probe(address, identity)
  tokens = (os.environ.get(f"RAY_AUTH_TOKEN{x}") for x in ("", "_PATH"))
  if not insecure or any(tokens) or _TOKEN.expanduser().exists():
    os.environ.setdefault("RAY_AUTH_MODE", "token")
  return address


def find_identity() -> certificates.Identity | None:
  """Returns the identity that Ray uses on this machine, or None without TLS.

  If RAY_USE_TLS is not set, this function sets Ray's variables to the files in
  ~/.ray/tls, if there are any.

  Raises:
    ValueError: RAY_USE_TLS is set, but another variable is missing.
  """
  folder = _FOLDER.expanduser()
  if not os.environ.get(_TLS) and folder.is_dir():
    os.environ[_TLS] = "1"
    os.environ.update({x: str(folder / file) for x, file in _FILES.items()})
  if os.environ.get(_TLS, "").lower() not in ("1", "true"):
    return None
  if missing := [name for name in _FILES if not os.environ.get(name)]:
    raise ValueError(
      f"{_TLS}=1 needs {' and '.join(missing)}, so Ray can't be reached: set "
      f"them to files, or unset {_TLS} to use those in {_FOLDER}"
    )
  return certificates.Identity(*(os.environ[name] for name in _FILES))


def _parse_address(given: str | None) -> str:
  """Returns the given address, or else the value of RAY_ADDRESS."""
  address = given or os.environ.get("RAY_ADDRESS", "")
  host, _, port = address.rpartition(":")
  if not host or not port.isdecimal():
    raise ValueError(
      f"--launch=ray needs the address of a Ray cluster, not {address!r}: "
      "give --ray_address=HOST:PORT, or set RAY_ADDRESS"
    )
  return address


def _probe(address: str, identity: certificates.Identity | None) -> None:
  """Checks that a head node replies, with TLS if there is an identity."""
  host, _, port = address.rpartition(":")
  if identity is not None:
    context = identity.client_context()
  else:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
  try:
    with socket.create_connection((host, int(port)), _PROBE_TIMEOUT_S) as plain:
      context.wrap_socket(plain, server_hostname=host).close()
  except ssl.SSLCertVerificationError as error:
    raise ValueError(
      f"--ray_address={address} has a certificate that this machine does not "
      f"accept ({error.verify_message}): use certificates of one authority, "
      "and give the head's own name or address"
    ) from error
  except (ssl.SSLError, ConnectionResetError) as error:
    if identity is None:
      return
    raise ValueError(
      f"the Ray cluster at {address} uses no TLS ({error}), so anyone on its "
      "network could steal its token and run programs there: start it by "
      f"launch/clusters/start.sh, or on a private network set {_TLS}=0 and "
      "give --insecure"
    ) from error
  except (OSError, OverflowError) as error:
    raise ValueError(
      f"--ray_address={address} does not reply ({error}): start Ray there "
      "(launch/clusters/start.sh head), or give another address"
    ) from error
  if identity is None:
    raise ValueError(
      f"the Ray cluster at {address} requires a certificate, and this machine "
      f"has none: give {_FOLDER}/ the files of `slipway certificates`"
    )
