"""Given runs: folders with configs and curves, as runs write them."""

import contextlib
import http.client
import json
import threading

from slipway.configs import catalog
from slipway.launch.dashboard import server as server_lib
from slipway.launch.runs import records, results, run_folder, run_status

TOKEN = "a-token"


def make_run(path, preset="dqn:cartpole", seed=1, **fields):
  """Makes the folder of a run that has begun, with files without rows."""
  folder = run_folder.RunFolder.create(path.parent, path.name, overwrite=False)
  algorithm, _, task = preset.partition(":")
  config = catalog.algorithms()[algorithm].get_config(task)
  config.update_from_flattened_dict({"seed": seed, **fields})
  folder.write_config(config)
  return folder


def add_evaluations(folder, returns):
  """Writes curves.csv and TensorBoard's events, as a run does."""
  written = results.Results(folder)
  for index, mean_return in enumerate(returns, 1):
    status = run_status.RunStatus(
      env_steps=100 * index, trainer_steps=10 * index, wall_s=2.0 * index
    )
    written.add_metrics(status)
    written.add_evaluation(
      results.make_evaluation(status, [mean_return], [200], index)
    )
  written.close()


def end(folder, **status):
  """Writes the summary of a run that has reached a limit."""
  values = {"phase": "stopped", "stopped_because": "trainer_steps", **status}
  summary = run_status.RunStatus(name=folder.name, **values)
  folder.summary.write_bytes(records.to_json(summary))


@contextlib.contextmanager
def served(*paths, name="127.0.0.1"):
  """Yields the port of a dashboard in this process."""
  app = server_lib.Dashboard(paths, TOKEN, name)
  server = server_lib.make_server(app, "127.0.0.1", 0)
  thread = threading.Thread(target=server.serve_forever)
  thread.start()
  try:
    yield server.port
  finally:
    server.shutdown()
    thread.join()


def request(port, path, host=None, token=TOKEN):
  """Returns the response's status, headers and content."""
  connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
  headers = {} if token is None else {server_lib.TOKEN_HEADER: token}
  if host is not None:
    headers["Host"] = host
  with contextlib.closing(connection):
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def load(port, path, **options):
  """Returns the data at a path, below that of all data."""
  status, _, content = request(port, f"/api/{path}", **options)
  assert status == 200, content
  return json.loads(content)


def load_runs(port):
  """Returns the rows of the table of all runs, by name."""
  names = ("key", "name", "state", "numbers", "note")
  rows = [dict(zip(names, row, strict=True)) for row in load(port, "runs")]
  return {row["name"]: row for row in rows}
