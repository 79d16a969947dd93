"""The command `slipway dashboard RUN...`, which serves a page about runs."""

import pathlib
import secrets
from collections.abc import Sequence

from slipway.launch.checks import flags as flags_lib
from slipway.launch.dashboard import server as server_lib
from slipway.launch.dashboard import sources
from slipway.launch.runs import run_folder

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


def main(argv: Sequence[str]) -> None:
  """Serves the page until Ctrl-C.

  Raises:
    ValueError: there is no such run, or the address is in use.
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
  token = secrets.token_urlsafe(24)
  words = flags.parse(argv, _USAGE, has_words=True)
  folders = words or [sources.find_newest(_RUN_DIR)]
  paths = [run_folder.expand(folder).resolve() for folder in folders]
  for path in paths:
    if not sources.find([path]):
      run_folder.RunFolder.open(path, trust=True)  # raises, with advice
  app = server_lib.Dashboard(paths, token, flags.host)
  server = server_lib.make_server(app, flags.host, flags.port)
  print(f"http://{flags.host}:{server.port}/#token={token}", flush=True)
  server.serve_forever()
