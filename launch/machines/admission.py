"""Admission: configures Ray with the credentials that a cluster requires.

`authenticate` sets environment variables that Ray reads when it is imported. So
it must be called before `slipway.launch.machines.cluster` is imported.
"""

import os
import pathlib
import socket
import ssl
from collections.abc import Mapping

import grpc

from slipway.launch.machines import cluster_keys

# Seconds that Ray's head node may take to reply.
_PROBE_TIMEOUT_S = 5.0
# A gRPC method of Ray's head node that is called without a token. A cluster
# that does not reject the call requires no token.
_PROBE_METHOD = "/ray.rpc.NodeInfoGcsService/CheckAlive"
# Error codes of a call that no server has replied to.
_NO_REPLY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
# Environment variable that makes Ray use TLS.
_TLS = "RAY_USE_TLS"
# Environment variables with the paths of the certificate authority, the private
# key and the certificate that Ray uses.
_FILES = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_SERVER_CERT")


def authenticate(given: str | None, insecure: bool) -> str:
  """Configures Ray in this process with the credentials of a cluster.

  Mutual TLS is required unless the variable RAY_USE_TLS turns TLS off.
  Otherwise a cluster without TLS would get the token in plaintext.

  Args:
    given: 'host:port' of Ray's head node, or None for the value of RAY_ADDRESS.
    insecure: whether a cluster without a token or without TLS is accepted.

  Returns:
    'host:port' of Ray's head node.

  Raises:
    ValueError: no cluster replies at the address, the cluster is not secure, or
      this machine has no credentials for it.
  """
  address = _parse_address(given)
  token = cluster_keys.read_token()
  tls = _tls_environment(token)
  lacks_tls = bool(tls) and not _uses_tls(address, tls)
  if lacks_tls:
    tls = {}
  code = _call_without_token(address, tls)
  if code in _NO_REPLY:
    raise ValueError(
      f"--ray_address={address} does not reply, and "
      f"{_describe_source(token)}: start Ray there ("
      "launch/clusters/start.sh head), give another address, or "
      "copy the cluster's token"
    )
  if code == grpc.StatusCode.UNAUTHENTICATED:
    if not token:
      raise ValueError(
        f"the Ray cluster at {address} requires a token, and "
        f"{_describe_source(token)}: copy it from one of the cluster's machines"
      )
    if lacks_tls and not insecure:
      raise ValueError(
        f"the Ray cluster at {address} uses plaintext, so anyone who can read "
        "its network could steal the token and run programs there: start it "
        f"by launch/clusters/start.sh, or on a private network set {_TLS}=0"
      )
    os.environ["RAY_AUTH_MODE"] = "token"
  elif not insecure:
    raise ValueError(
      f"the Ray cluster at {address} requires no token, so anyone who can "
      "reach it could run programs there: start it with RAY_AUTH_MODE=token "
      "(launch/clusters/start.sh does), or give --insecure on a private network"
    )
  os.environ.update(tls or {_TLS: "0"})
  return address


def _parse_address(given: str | None) -> str:
  """Returns the given address, or else the value of RAY_ADDRESS.

  Args:
    given: 'host:port', or None.

  Raises:
    ValueError: the address is missing, or is not 'host:port'.
  """
  address = given or os.environ.get("RAY_ADDRESS", "")
  host, _, port = address.rpartition(":")
  if not host or not port.isdecimal():
    raise ValueError(
      f"--launch=ray needs the address of a Ray cluster, not {address!r}: "
      "give --ray_address=HOST:PORT, or set RAY_ADDRESS"
    )
  return address


def _describe_source(token: str) -> str:
  """Returns a clause about the source of this machine's token, for an error.

  An example is 'this machine has no token in ~/.ray/auth_token'.

  Args:
    token: Ray's token, or an empty text if this machine has no token.
  """
  has = "has the token of" if token else "has no token in"
  return f"this machine {has} {cluster_keys.token_source()}"


def _tls_environment(token: str) -> Mapping[str, str]:
  """Returns the environment variables that make Ray use TLS.

  Args:
    token: the cluster's token. Certificates are made from the token unless the
      user has set RAY_USE_TLS.

  Returns:
    The variables, or an empty mapping if Ray uses plaintext.

  Raises:
    ValueError: this machine has no identity, and none can be made.
  """
  if setting := os.environ.get(_TLS):  # set by the user who started Ray
    if setting.lower() not in ("1", "true"):
      return {}
    missing = [
      n for n in _FILES if not os.access(os.environ.get(n, ""), os.R_OK)
    ]
    if missing:
      raise ValueError(
        f"{_TLS}=1 needs {' and '.join(missing)} to name readable files: unset "
        f"{_TLS} to have them made from the cluster's token"
      )
    return {name: os.environ[name] for name in (_TLS, *_FILES)}
  return (
    cluster_keys.make_environment_variables(cluster_keys.make_identity(token))
    if token
    else {}
  )


def _uses_tls(address: str, tls: Mapping[str, str]) -> bool:
  """Returns whether a cluster's head node uses TLS, by a TLS handshake.

  Args:
    address: 'host:port' of Ray's head node.
    tls: the environment variables with the paths of this machine's TLS files.

  Raises:
    ValueError: there is no reply, the head node's certificate is not trusted,
      or this machine's TLS files are invalid.
  """
  host, _, port = address.rpartition(":")
  ca, key, certificate = (tls[name] for name in _FILES)
  try:
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
  except OSError as error:
    raise ValueError(
      f"the files for {_TLS}=1 are not an authority's certificate, a key, and "
      f"the certificate of that key ({error}): unset {_TLS} to have them made "
      "from the cluster's token"
    ) from error
  try:
    with (
      socket.create_connection((host, int(port)), _PROBE_TIMEOUT_S) as plain,
      context.wrap_socket(plain, server_hostname=host),
    ):
      return True
  except ssl.SSLCertVerificationError as error:
    raise ValueError(
      f"--ray_address={address} has a certificate that this machine's token "
      f"does not sign ({error.verify_message}): copy the cluster's token, "
      "and give the head's own name or address"
    ) from error
  except (ssl.SSLError, ConnectionResetError):
    return False
  except OSError as error:
    raise ValueError(
      f"--ray_address={address} does not reply ({error}): start Ray there "
      "(launch/clusters/start.sh head), or give another address"
    ) from error


def _call_without_token(
  address: str, tls: Mapping[str, str]
) -> grpc.StatusCode | None:
  """Calls Ray's head node without a token, to see whether it requires one.

  Args:
    address: 'host:port' of Ray's head node.
    tls: the environment variables with the paths of this machine's TLS files,
      or empty for plaintext.

  Returns:
    The error code of the call, such as UNAUTHENTICATED, or None if the head
    node has accepted the call.
  """
  if tls:
    pems = [pathlib.Path(tls[name]).read_bytes() for name in _FILES]
    credentials = grpc.ssl_channel_credentials(*pems)
    opened = grpc.secure_channel(address, credentials)
  else:
    opened = grpc.insecure_channel(address)
  with opened as channel:
    try:
      channel.unary_unary(_PROBE_METHOD)(b"", timeout=_PROBE_TIMEOUT_S)
    except grpc.RpcError as error:
      return error.code()
  return None
