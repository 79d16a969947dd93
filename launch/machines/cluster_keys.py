"""Cluster keys: the certificates by which a Ray cluster's machines meet.

Ray's token says who may run programs on a cluster, but Ray sends it in clear,
and its head can be ended by who has none. So all that Ray says goes over mutual
TLS. Its authority follows from the token, so a machine that has the token makes
its own certificate, and nothing else has to be handed out.

    eval "$(python -m launch.machines.cluster_keys [HOST...])"

has a shell's Ray use this machine's, as `launch/clusters/start.sh` does; HOSTs
are names or addresses that others know it by, beside those it finds itself.
"""

import hashlib
import os
import pathlib
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence

import psutil

from replay import certificates

_TOKEN = "~/.ray/auth_token"  # where Ray has it by default
_FOLDER = pathlib.Path("~/.ray/slipway")


def source() -> str:
  """Where Ray takes its token from: the name of a variable, or a path."""
  if os.environ.get("RAY_AUTH_TOKEN", "").strip():
    return "RAY_AUTH_TOKEN"
  return os.environ.get("RAY_AUTH_TOKEN_PATH") or _TOKEN


def token() -> str:
  """Ray's token, from there; '' if there is none.

  Raises:
    ValueError: one line: its file can't be read.
  """
  if given := os.environ.get("RAY_AUTH_TOKEN", "").strip():
    return given
  path = pathlib.Path(source()).expanduser()
  try:
    return path.read_text(encoding="utf-8").strip()
  except FileNotFoundError:
    return ""
  except (OSError, UnicodeError) as error:
    raise ValueError(
      f"Ray's token in {str(path)!r} can't be read ({error}): it must be a "
      "text that this user can read"
    ) from error


def make(token: str, hosts: Sequence[str] = ()) -> pathlib.Path:
  """The folder of this machine's certificate; makes it if it is missing.

  What is there is never changed, as Ray reads it as long as it runs: each token
  and each set of names has a folder of its own.

  Args:
    token: of the cluster.
    hosts: that others know this machine by, beside those it finds itself.

  Raises:
    ValueError: one line: the disk refuses.
  """
  known = sorted({*_own_hosts(), *hosts})
  authority = certificates.Authority.of_secret(token)
  named = hashlib.sha256(" ".join([authority.fingerprint, *known]).encode())
  folder = _FOLDER.expanduser() / named.hexdigest()[:16]
  try:
    if not folder.exists():
      _make(folder, authority, known)
  except OSError as error:
    raise ValueError(
      f"this machine's certificate for Ray can't be kept ({error}): make that "
      "folder writable for this user"
    ) from error
  return folder


def environment(folder: pathlib.Path) -> Mapping[str, str]:
  """The variables that have Ray use a folder of `make`."""
  return {
    "RAY_USE_TLS": "1",
    "RAY_TLS_SERVER_CERT": str(folder / certificates.CERTIFICATE),
    "RAY_TLS_SERVER_KEY": str(folder / certificates.KEY),
    "RAY_TLS_CA_CERT": str(folder / certificates.AUTHORITY),
  }


def _make(
  folder: pathlib.Path,
  authority: certificates.Authority,
  hosts: Sequence[str],
) -> None:
  folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
  beside = folder.with_name(f".{folder.name}.{os.getpid()}")
  identity = certificates.Identity.make(beside)
  signed = authority.sign(identity.request, socket.gethostname(), hosts)
  identity.accept(signed, authority.certificate)
  try:
    beside.rename(folder)
  except OSError:
    shutil.rmtree(beside)
    if not folder.exists():  # Else another process was faster.
      raise


def _own_hosts() -> list[str]:
  """Names and addresses of this machine."""
  families = (socket.AF_INET, socket.AF_INET6)
  addresses = [
    address.address
    for of_one in psutil.net_if_addrs().values()
    for address in of_one
    # What is local to a link ("%eth0") is no address for others.
    if address.family in families and "%" not in address.address
  ]
  return [*addresses, "localhost", socket.gethostname(), socket.getfqdn()]


if __name__ == "__main__":
  try:
    folder = make(token(), sys.argv[1:])
  except ValueError as error:
    sys.exit(f"start: {error}")
  for name, value in environment(folder).items():
    print(f"export {name}={shlex.quote(value)}")
