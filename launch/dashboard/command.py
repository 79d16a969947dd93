"""The command `slipway dashboard RUN...`, which serves a page about runs."""

import pathlib
import secrets
import socket
import sys
from collections.abc import Sequence

from slipway.launch.checks import flags as flags_lib
from slipway.launch.dashboard import server as server_lib
from slipway.launch.dashboard import sources as sources_lib

# Sentences that begin the help.
_USAGE = """\
Shows runs, active or ended, on a page in a browser.

  slipway dashboard
  slipway dashboard runs/first runs/second
  slipway dashboard runs/rates

A folder is a run, or has some, as a sweep or runs/ itself does. Without one,
the newest run or sweep in runs/ is shown. Open the address that is printed; its
end, the token, lets only you read the runs. Ctrl-C ends the page, not a run."""
_RUN_DIR = pathlib.Path("runs")


def main(argv: Sequence[str]) -> int:
  """Serves the page until Ctrl-C.

  Returns:
    Exit status: 0, or 2 if there is no such run or the address is in use.
  """
  flags = flags_lib.Flags()
  flags.add_integer(
    *("port", 0, "Port of the server; 0 is any free one.", 0, 65_535)
  )
  flags.add_text(
    "host",
    "127.0.0.1",
    "Address of the server. The default can be reached from this machine only, "
    "and from others by `ssh -L PORT:localhost:PORT`. Connections are not "
    "encrypted.",
  )
  flags.add_texts(
    "allow_host",
    "Name by which a proxy calls the server, in the header Host. Can be given "
    "several times.",
  )
  try:
    words = flags.parse(argv, _USAGE, has_words=True)
    sources = sources_lib.Sources(words or [sources_lib.find_newest(_RUN_DIR)])
    listener = _listen(flags.host, flags.port)
  except ValueError as error:
    print(f"dashboard: {error}", file=sys.stderr)
    return 2
  token = secrets.token_urlsafe(24)
  names = [name.lower() for name in (flags.host, *flags.allow_host)]
  app = server_lib.Dashboard(sources, token, names)
  host = f"[{flags.host}]" if ":" in flags.host else flags.host
  port = listener.getsockname()[1]
  with listener:
    print(f"http://{host}:{port}/#token={token}", flush=True)
    server_lib.make_server(listener, app).serve_forever()
  return 0


def _listen(host: str, port: int) -> socket.socket:
  """Returns a socket that listens at an address."""
  family = socket.AF_INET6 if ":" in host else socket.AF_INET
  try:
    return socket.create_server((host, port), family=family)
  except OSError as error:
    raise ValueError(
      f"--host={host} --port={port} can't be used ({error.strerror or error}), "
      "so there is no page: give another port or address"
    ) from error


if __name__ == "__main__":
  sys.exit(main(sys.argv))
