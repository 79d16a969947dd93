"""A stranger: tries all that a run's machines would do, and prints what it got.

Arguments: addresses, 'host:port'. Prints for each what was answered, as JSON:
an empty list where nobody does.
"""

import contextlib
import json
import os
import socket
import ssl
import sys
import threading
from concurrent import futures

import numpy as np
import reverb

_TIMEOUT_S = 6.0
_STATUS = b"\0\0\0\x09\x92\xa6status\x90"  # a frame: ["status", []]


def _call(address):
  """Asks for the run's status as its own processes do."""
  host, _, port = address.rpartition(":")
  with socket.create_connection((host, int(port)), 2) as connection:
    connection.settimeout(2)
    connection.sendall(b"slipway-rpc 1\n" + _STATUS)
    return [text for text in [connection.recv(100).hex()] if text]


def _read(address):
  """Asks for the tables."""
  return sorted(reverb.Client(address).server_info(timeout=3))


def _sample(address):
  client = reverb.Client(address)
  drawn = client.sample("variables", 1, emit_timesteps=False)
  return [item.info.key for item in drawn]


def _insert(address):
  reverb.Client(address).insert([np.zeros(3)], {"transitions": 1.0})
  return ["inserted"]


def _greet(address):
  """Listens, as a plain client and as one of TLS without a certificate."""
  host, _, port = address.rpartition(":")
  anybody = ssl.create_default_context()
  anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
  said = []
  for wrap in (lambda plain: plain, anybody.wrap_socket):
    with (
      contextlib.suppress(OSError),  # nothing was got
      wrap(socket.create_connection((host, int(port)), 2)) as connection,
    ):
      connection.settimeout(2)
      connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
      said.append(connection.recv(100).hex())
  return [text for text in said if text]


def _try(address):
  """What was answered, by what was tried."""
  got = {}

  def attempt(tried):
    try:
      answer = tried(address)
    except Exception:
      return  # nothing was got
    if answer:
      got[tried.__name__] = answer

  threads = [
    threading.Thread(target=attempt, args=(tried,), daemon=True)
    for tried in (_call, _read, _sample, _insert, _greet)
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
