"""Stranger: an unauthenticated peer that attempts all accesses to a run.

The arguments are addresses, 'host:port'. Prints, as JSON, the replies by
address and kind of access; accesses without a reply are left out.
"""

import contextlib
import json
import os
import pathlib
import socket
import ssl
import sys
import tempfile
import threading
from concurrent import futures

import numpy as np
import reverb

from slipway.launch.machines import authority

_TIMEOUT_S = 6.0
# A message of `multiprocessing.connection`: ["status", []].
_STATUS = b"\0\0\0\x09\x92\xa6status\x90"


def _request_status(address):
  """Requests the run's status as the run's own processes do."""
  host, _, port = address.rpartition(":")
  with socket.create_connection((host, int(port)), 2) as connection:
    connection.settimeout(2)
    connection.sendall(_STATUS)
    return [text for text in [connection.recv(100).hex()] if text]


def _list_tables(address):
  """Requests the names of the tables."""
  return sorted(reverb.Client(address).server_info(timeout=3))


def _sample(address):
  client = reverb.Client(address)
  samples = client.sample("variables", 1, emit_timesteps=False)
  return [item.info.key for item in samples]


def _insert(address):
  reverb.Client(address).insert([np.zeros(3)], {"transitions": 1.0})
  return ["inserted"]


def _connect(address):
  """Sends an HTTP/2 preface in plaintext and by TLS.

  By TLS, it has no certificate, and then one of another authority.

  Returns:
    The replies in hexadecimal, without empty ones.
  """
  host, _, port = address.rpartition(":")
  contexts = [ssl.create_default_context() for _ in range(2)]
  for context in contexts:
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
  with tempfile.TemporaryDirectory() as folder:
    other = authority.Authority(pathlib.Path(folder)).issue([host])
    contexts[1].load_cert_chain(other.certificate, other.key)
  replies = []
  for wrap in (lambda plain: plain, *(x.wrap_socket for x in contexts)):
    with (
      contextlib.suppress(OSError),  # there was no reply
      wrap(socket.create_connection((host, int(port)), 2)) as connection,
    ):
      connection.settimeout(2)
      connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
      replies.append(connection.recv(100).hex())
  return [text for text in replies if text]


def _try(address):
  """Attempts all accesses to an address; returns the replies by access."""
  got = {}

  def attempt(access):
    try:
      reply = access(address)
    except Exception:
      return  # there was no reply
    if reply:
      got[access.__name__] = reply

  threads = [
    threading.Thread(target=attempt, args=(access,), daemon=True)
    for access in (_request_status, _list_tables, _sample, _insert, _connect)
  ]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(_TIMEOUT_S)
  return dict(got)


if __name__ == "__main__":
  with futures.ThreadPoolExecutor(len(sys.argv)) as at_once:
    got = list(at_once.map(_try, sys.argv[1:]))
  print(json.dumps(dict(zip(sys.argv[1:], got, strict=True))))
  sys.stdout.flush()
  os._exit(0)  # Reverb's threads may wait for ever.
