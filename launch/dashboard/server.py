"""Server: the dashboard's page, and the data of its runs, by HTTP.

Only those who have the token can read the runs, neither other users of this
machine nor pages of other sites in the user's browser:

- The token is in the fragment of the page's address, which browsers send to no
  server, and a header of each request for data has it. A cookie would also be
  sent to servers of other users, at other ports of this machine.
- A request that names another host is rejected, so that no site can give its
  name this machine's address (DNS rebinding).
- The page executes the scripts of this server alone, and loads nothing else.
"""

import hmac
import ipaddress
import pathlib
import socket
import typing
import urllib.parse
from collections.abc import Collection, Iterable

import msgspec
from werkzeug import exceptions, routing, serving, utils, wrappers

from slipway.launch.dashboard import comparing, presets, views
from slipway.launch.dashboard import sources as sources_lib
from slipway.launch.runs import run_folder

TOKEN_HEADER = "X-Slipway-Token"  # of each request for data
_PAGE = pathlib.Path(__file__).parent / "page"
_TIMEOUT_S = 30.0  # of a client that sends no more of its request
_HEADERS = {
  "Content-Security-Policy": (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; media-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  ),
  "Cache-Control": "no-store",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
}
_ROUTES = routing.Map(
  [
    routing.Rule("/", endpoint="page", defaults={"file": "index.html"}),
    routing.Rule("/<file>", endpoint="page"),
    routing.Rule("/api/runs", endpoint="runs"),
    routing.Rule(
      "/api/comparison/<any(env_steps, trainer_steps, wall_s):axis>",
      endpoint="comparison",
    ),
    routing.Rule("/api/runs/<key>", endpoint="run"),
    routing.Rule("/api/runs/<key>/config", endpoint="config"),
    routing.Rule("/api/runs/<key>/files/<path:path>", endpoint="file"),
    routing.Rule(
      "/api/runs/<key>/<any(inspect, doctor):command>",
      endpoint="command",
      methods=["POST"],
    ),
  ]
)


class Dashboard:
  """The application, by the protocol WSGI."""

  def __init__(
    self, sources: sources_lib.Sources, token: str, hosts: Collection[str]
  ):
    """Makes the application.

    Args:
      sources: the runs that are shown.
      token: the value of `TOKEN_HEADER` without which no data is sent.
      hosts: names by which the server may be called, apart from this machine's
        name, 'localhost' and any IP address.
    """
    self._sources, self._token = sources, token.encode()
    self._hosts = {"localhost", socket.gethostname().lower(), *hosts}

  def __call__(
    self, environ: dict[str, typing.Any], start_response: typing.Any
  ) -> Iterable[bytes]:
    """Replies to a request."""
    try:
      response = self._reply(wrappers.Request(environ))
    except exceptions.HTTPException as error:
      response = wrappers.Response(error.description, error.code)
    except (ValueError, OSError) as error:  # a file of the run
      response = wrappers.Response(str(error), 500)
    response.headers.update(_HEADERS)
    return response(environ, start_response)

  def _reply(self, request: wrappers.Request) -> wrappers.Response:
    """Returns the response to a request."""
    if not self._is_own(request.host):
      raise exceptions.BadRequest(
        f"{request.host!r} is not this machine: give --allow_host=NAME to "
        "`slipway dashboard` if a proxy calls it by this name"
      )
    name, arguments = _ROUTES.bind_to_environ(request.environ).match()
    if name == "page":
      file = arguments["file"]
      return utils.send_from_directory(_PAGE, file, request.environ)
    token = request.headers.get(TOKEN_HEADER, "").encode()
    if not hmac.compare_digest(token, self._token):
      raise exceptions.Unauthorized(
        "The token is missing or wrong: open the address that `slipway "
        "dashboard` has printed."
      )
    source = self._sources.get(arguments.pop("key", ""))
    if name == "runs":
      runs = [views.summarize(source) for source in self._sources.list()]
      data = {"folders": [*map(str, self._sources.paths)], "runs": runs}
    elif name == "comparison":
      data = comparing.compare(self._sources.list(), **arguments)
    elif source is None:
      raise exceptions.NotFound("There is no such run any more.")
    elif name == "config":
      data = presets.describe(source.folder.config)
    elif name == "command":
      data = views.execute(source, **arguments)
    elif name == "file":
      return _send_file(source.folder, request, **arguments)
    else:
      counts = {x: request.args.get(x, 0, int) for x in ("generation", "count")}
      data = views.show(source, **counts)
    return wrappers.Response(msgspec.json.encode(data), mimetype="text/json")

  def _is_own(self, host: str) -> bool:
    """Returns whether a Host header is an IP address or a name of `hosts`."""
    try:
      name = urllib.parse.urlsplit(f"//{host}").hostname or ""
      return name in self._hosts or bool(ipaddress.ip_address(name))
    except ValueError:
      return False


def _send_file(
  folder: run_folder.RunFolder, request: wrappers.Request, path: str
) -> wrappers.Response:
  """Returns a video of a run, or the end of a log."""
  found = views.find_file(folder, path)
  if found is None:
    raise exceptions.NotFound("There is no such file any more.")
  if found.is_relative_to(folder.logs.resolve()):
    return wrappers.Response(views.read_end(found))
  return utils.send_file(found, request.environ)


class _Handler(serving.WSGIRequestHandler):
  """Handler of a connection, which logs nothing."""

  timeout = _TIMEOUT_S

  def log(self, type: str, message: str, *args: typing.Any) -> None:
    pass


def make_server(
  listener: socket.socket, app: Dashboard
) -> serving.BaseWSGIServer:
  """Returns a server with a thread per connection, at a socket that listens."""
  host, port, *_ = listener.getsockname()
  return serving.make_server(
    host,
    port,
    app,
    threaded=True,
    request_handler=_Handler,
    fd=listener.fileno(),
  )
