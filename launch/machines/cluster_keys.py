"""Cluster keys: this machine's TLS key and certificate in a Ray cluster.

A client with Ray's token may run programs on a cluster. But Ray sends the token
in plaintext, and a client without the token can end Ray's head node. So
machines communicate over mutual TLS, with Ray and with the other machines of a
run. The certificate authority is derived from the token. So a machine with the
token issues its own certificate, and users distribute only the token.

    eval "$(python -m slipway.launch.machines.cluster_keys [HOST...])"

makes Ray in a shell use this machine's identity, as `launch/clusters/start.sh`
does. HOSTs are further names or addresses by which other machines reach this
one.
"""

import hashlib
import os
import pathlib
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence

import psutil

from slipway.replay.transport import certificates, relay_tls

# Path of the file from which Ray reads its token by default.
_DEFAULT_TOKEN_PATH = "~/.ray/auth_token"
# Folder of all identities of this machine and user.
_IDENTITIES = pathlib.Path("~/.ray/slipway")
# Environment variable with the path of the certificate that Ray uses.
_CERTIFICATE_VARIABLE = "RAY_TLS_SERVER_CERT"


def token_source() -> str:
  """Returns the environment variable or path from which Ray reads its token.

  Returns:
    'RAY_AUTH_TOKEN' if that variable is set, or else the path of the token's
    file, which may be missing.
  """
  if os.environ.get("RAY_AUTH_TOKEN", "").strip():
    return "RAY_AUTH_TOKEN"
  return os.environ.get("RAY_AUTH_TOKEN_PATH") or _DEFAULT_TOKEN_PATH


def read_token() -> str:
  """Returns Ray's token, or an empty text if this machine has no token.

  The token is read from the environment variable or file that `token_source`
  returns.

  Raises:
    ValueError: the token's file can't be read.
  """
  if given := os.environ.get("RAY_AUTH_TOKEN", "").strip():
    return given
  path = pathlib.Path(token_source()).expanduser()
  try:
    return path.read_text(encoding="utf-8").strip()
  except FileNotFoundError:
    return ""
  except (OSError, UnicodeError) as error:
    raise ValueError(
      f"Ray's token in {str(path)!r} can't be read ({error}): it must be a "
      "text file that this user can read"
    ) from error


def make_identity(
  token: str, hosts: Sequence[str] = ()
) -> certificates.Identity:
  """Returns this machine's identity for a token, and issues it if necessary.

  The key and the certificate are in a folder, which Ray reads as long as Ray
  runs. So an existing folder never changes: each token and each set of host
  names has a separate folder.

  Args:
    token: the cluster's token, from `read_token`.
    hosts: further names and addresses by which other machines reach this one.

  Raises:
    ValueError: the token is empty, or the folder cannot be written.
  """
  if not token:
    raise ValueError(
      f"this machine has no token in {token_source()}, so it has no identity "
      "in the cluster: copy the token from one of the cluster's machines"
    )
  names = sorted({relay_tls.NAME, *_own_hosts(), *hosts})
  authority = certificates.CertificateAuthority.from_secret(token)
  digest = hashlib.sha256(" ".join([authority.fingerprint, *names]).encode())
  folder = _IDENTITIES.expanduser() / digest.hexdigest()[:16]
  if folder.exists():
    return certificates.Identity(folder)
  try:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return authority.issue(folder, socket.gethostname(), names)
  except OSError as error:
    raise ValueError(
      f"this machine's certificate can't be saved ({error}): make that folder "
      "writable for this user"
    ) from error


def find_identity() -> certificates.Identity:
  """Returns the identity that Ray uses on this machine.

  If Ray's environment variables name no identity that `make_identity` has made,
  this function makes one from the token.

  Raises:
    ValueError: there is no usable token; see `read_token` and `make_identity`.
  """
  folder = pathlib.Path(os.environ.get(_CERTIFICATE_VARIABLE, "")).parent
  # A certificate in another folder was not made by this module, but issued by
  # an authority of the user's. The machines of a run do not use it.
  if folder.parent == _IDENTITIES.expanduser():
    return certificates.Identity(folder)
  return make_identity(read_token())


def make_environment_variables(
  identity: certificates.Identity,
) -> Mapping[str, str]:
  """Returns the environment variables that make Ray use TLS with an identity.

  Args:
    identity: this machine's key and certificate.
  """
  return {
    "RAY_USE_TLS": "1",
    _CERTIFICATE_VARIABLE: str(identity.folder / certificates.CERTIFICATE),
    "RAY_TLS_SERVER_KEY": str(identity.folder / certificates.KEY),
    "RAY_TLS_CA_CERT": str(identity.folder / certificates.AUTHORITY),
  }


def _own_hosts() -> list[str]:
  """Returns the host names and IP addresses of this machine."""
  families = (socket.AF_INET, socket.AF_INET6)
  addresses = [
    address.address
    for interface in psutil.net_if_addrs().values()
    for address in interface
    # Link-local addresses ("%eth0") are of no use to other machines.
    if address.family in families and "%" not in address.address
  ]
  return [*addresses, "localhost", socket.gethostname(), socket.getfqdn()]


if __name__ == "__main__":
  try:
    made = make_identity(read_token(), sys.argv[1:])
  except ValueError as error:
    sys.exit(f"start: {error}")
  for name, value in make_environment_variables(made).items():
    print(f"export {name}={shlex.quote(value)}")
