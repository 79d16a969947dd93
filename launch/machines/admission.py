"""Admission: what this process has to show to a Ray cluster, and must not lack.

Ray reads its environment when it is loaded, so this comes before `cluster`.
"""

import os
import pathlib
import socket
import ssl
from collections.abc import Mapping

import grpc

from slipway.launch.machines import cluster_keys

_PROBE_S = 5.0
# Asked without a token; any other answer than a refusal is one to a stranger.
_PROBE = "/ray.rpc.NodeInfoGcsService/CheckAlive"
_SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_TLS = "RAY_USE_TLS"
_FILES = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_SERVER_CERT")


def seek(given: str | None, insecure: bool) -> str:
  """Finds out what a cluster asks for, and has Ray in this process show it.

  Over mutual TLS, unless RAY_USE_TLS says that the cluster has none: one that
  only seems to have none would be given the token.

  Args:
    given: 'host:port' of Ray's head; None: what RAY_ADDRESS says.
    insecure: whether a cluster that answers strangers, or speaks in clear, is
      used all the same.

  Returns:
    'host:port'.

  Raises:
    ValueError: one line: there is no such cluster, or it may not be used.
  """
  address = _address(given)
  token = cluster_keys.token()
  tls = _tls_environment(token)
  in_clear = bool(tls) and not _speaks_tls(address, tls)
  if in_clear:
    tls = {}
  code = _probe(address, tls)
  if code in _SILENT:
    raise ValueError(
      f"--ray_address={address} does not answer, and {_source(token)}: start "
      "Ray there (launch/clusters/start.sh head), give another address, or "
      "copy the cluster's token"
    )
  if code == grpc.StatusCode.UNAUTHENTICATED:
    if not token:
      raise ValueError(
        f"the Ray cluster at {address} asks for a token, and {_source(token)}: "
        "copy it from one of the cluster's machines"
      )
    if in_clear and not insecure:
      raise ValueError(
        f"the Ray cluster at {address} speaks in clear, so who reads the "
        "network could take its token and run programs there: start it by "
        f"launch/clusters/start.sh, or on a private network set {_TLS}=0"
      )
    os.environ["RAY_AUTH_MODE"] = "token"
  elif not insecure:
    raise ValueError(
      f"the Ray cluster at {address} answers without a token, so anybody who "
      "reaches it could run programs there: start it with RAY_AUTH_MODE=token "
      "(launch/clusters/start.sh does), or say --insecure on a private network"
    )
  os.environ.update(tls or {_TLS: "0"})
  return address


def _address(given: str | None) -> str:
  address = given or os.environ.get("RAY_ADDRESS", "")
  host, _, port = address.rpartition(":")
  if not host or not port.isdecimal():
    raise ValueError(
      f"--launch=ray needs the address of a Ray cluster, and has {address!r}: "
      "give --ray_address=HOST:PORT, or set RAY_ADDRESS"
    )
  return address


def _source(token: str) -> str:
  has = "has the token of" if token else "has no token in"
  return f"this machine {has} {cluster_keys.source()}"


def _tls_environment(token: str) -> Mapping[str, str]:
  """The variables that have Ray use TLS; {}: it is to speak in clear.

  Raises:
    ValueError: one line: there is no identity, and none can be made.
  """
  if said := os.environ.get(_TLS):  # Whoever started Ray has seen to it.
    if said.lower() not in ("1", "true"):
      return {}
    missing = [
      n for n in _FILES if not os.access(os.environ.get(n, ""), os.R_OK)
    ]
    if missing:
      raise ValueError(
        f"{_TLS}=1 needs {' and '.join(missing)} to name readable files: leave "
        "it out to have them made from the cluster's token"
      )
    return {name: os.environ[name] for name in (_TLS, *_FILES)}
  return cluster_keys.environment(cluster_keys.make(token)) if token else {}


def _speaks_tls(address: str, tls: Mapping[str, str]) -> bool:
  """Whether a cluster speaks TLS, and has certificates that are trusted here.

  Raises:
    ValueError: one line: nobody answers, or with other certificates.
  """
  host, _, port = address.rpartition(":")
  ca, key, certificate = (tls[name] for name in _FILES)
  try:
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
  except OSError as error:
    raise ValueError(
      f"the files that {_TLS}=1 has Ray use are not an authority, a key, and "
      f"the certificate of that key ({error}): leave it out to have them made "
      "from the cluster's token"
    ) from error
  try:
    with (
      socket.create_connection((host, int(port)), _PROBE_S) as plain,
      context.wrap_socket(plain, server_hostname=host),
    ):
      return True
  except ssl.SSLCertVerificationError as error:
    raise ValueError(
      f"--ray_address={address} shows a certificate that this machine's token "
      f"does not lead to ({error.verify_message}): copy the cluster's token, "
      "and give the head's own name or address"
    ) from error
  except (ssl.SSLError, ConnectionResetError):
    return False
  except OSError as error:
    raise ValueError(
      f"--ray_address={address} does not answer ({error}): start Ray there "
      "(launch/clusters/start.sh head), or give another address"
    ) from error


def _probe(address: str, tls: Mapping[str, str]) -> grpc.StatusCode | None:
  """What a cluster answers to who has no token; None: all that it is asked.

  Args:
    address: 'host:port'.
    tls: the variables that say with which certificates; {}: in clear.
  """
  if tls:
    pems = [pathlib.Path(tls[name]).read_bytes() for name in _FILES]
    credentials = grpc.ssl_channel_credentials(*pems)
    opened = grpc.secure_channel(address, credentials)
  else:
    opened = grpc.insecure_channel(address)
  with opened as channel:
    try:
      channel.unary_unary(_PROBE)(b"", timeout=_PROBE_S)
    except grpc.RpcError as error:
      return error.code()
  return None
