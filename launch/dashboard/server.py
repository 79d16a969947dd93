"""Server: the dashboard's page, and the data of its runs, by HTTP.

Only those who have the token can read the runs. It is in the fragment of the
page's address, which browsers send to no server, and in a header of each
request for data. A cookie would also be sent to servers of other users, at
other ports of this machine. A request that names another host is rejected, so
that no site can give its name this machine's address (DNS rebinding). The page
executes the scripts of this server alone, and loads nothing else.
"""

import hmac
import ipaddress
import pathlib
import socket
import typing
import urllib.parse
from collections.abc import Iterable, Sequence

import msgspec
from werkzeug import exceptions, routing, serving, utils, wrappers

from slipway.launch.dashboard import sources, views

TOKEN_HEADER = "X-Slipway-Token"  # of each request for data
_PAGE = pathlib.Path(__file__).parent / "page"
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
# Addresses, whose endpoints are functions of all runs or of one, by its key.
_ROUTES = routing.Map(
  [
    routing.Rule("/", defaults={"file": "index.html"}),
    routing.Rule("/<file>"),
    routing.Rule("/api/runs", endpoint=views.list_runs),
    routing.Rule(
      "/api/comparison/<any(env_steps, trainer_steps, wall_s):axis>",
      endpoint=views.compare,
    ),
    routing.Rule("/api/runs/<key>", endpoint=views.show),
    routing.Rule("/api/runs/<key>/config", endpoint=views.compare_to_preset),
    routing.Rule("/api/runs/<key>/files/<path:path>", endpoint=views.read_file),
    routing.Rule(
      "/api/runs/<key>/<any(inspect, doctor):command>", endpoint=views.execute
    ),
  ]
)


class Dashboard:
  """The application, by the protocol WSGI."""

  def __init__(self, paths: Sequence[pathlib.Path], token: str, host: str):
    """Makes the application.

    Args:
      paths: folders of runs, or of folders of runs, which may begin later.
      token: the value of `TOKEN_HEADER` without which no data is sent.
      host: name by which the server may be called, apart from this machine's
        name, 'localhost' and any IP address.
    """
    self._paths, self._token = paths, token.encode()
    self._hosts = {"localhost", socket.gethostname().lower(), host.lower()}

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
      raise exceptions.BadRequest(f"{request.host!r} is not this machine")
    view, arguments = _ROUTES.bind_to_environ(request.environ).match()
    if view is None:
      return utils.send_from_directory(
        _PAGE, arguments["file"], request.environ
      )
    token = request.headers.get(TOKEN_HEADER, "").encode()
    if not hmac.compare_digest(token, self._token):
      raise exceptions.Unauthorized(
        "The token is missing or wrong: open the address that `slipway "
        "dashboard` has printed."
      )
    runs = sources.find(self._paths)
    key = arguments.pop("key", None)
    shown = runs.get(key) if key else runs.values()
    found = None if shown is None else view(shown, **arguments)
    if found is None:
      raise exceptions.NotFound("There is no such run or file any more.")
    if isinstance(found, pathlib.Path):
      return utils.send_file(found, request.environ)
    content = msgspec.json.encode(found, enc_hook=lambda array: array.tolist())
    return wrappers.Response(content, mimetype="text/json")

  def _is_own(self, host: str) -> bool:
    """Returns whether a Host header is an IP address or a name of `hosts`."""
    try:
      name = urllib.parse.urlsplit(f"//{host}").hostname or ""
      return name in self._hosts or bool(ipaddress.ip_address(name))
    except ValueError:
      return False


class _Handler(serving.WSGIRequestHandler):
  """Handler of a connection, which logs nothing."""

  timeout = 30.0  # seconds, of a client that sends no more of its request

  def log(self, type: str, message: str, *args: typing.Any) -> None:
    pass


def make_server(app: Dashboard, host: str, port: int) -> serving.BaseWSGIServer:
  """Returns a server with a thread per connection, which has a port.

  Raises:
    ValueError: the address can't be used.
  """
  try:
    listener = socket.create_server((host, port))
  except OSError as error:
    raise ValueError(
      f"--host={host} --port={port} can't be used ({error.strerror or error}), "
      "so there is no page: give another port or address"
    ) from error
  with listener:
    fd = listener.fileno()
    return serving.ThreadedWSGIServer(host, port, app, _Handler, fd=fd)
