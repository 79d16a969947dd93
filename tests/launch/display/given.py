"""Makes a run's status, consoles, and what they show of a status."""

import io

import msgspec
import rich.console

from slipway.launch.display import rendering
from slipway.launch.runs import run_status

STATUS = run_status.RunStatus(
  name="apex-cartpole-3",
  mode="sync",
  phase="running",
  wall_s=83.4,
  start_up_s=9.1,
  env_steps=123_456,
  trainer_steps=15_432,
  items_written=123_100,
  items_confirmed=122_980,
  items_lost=17,
  rates=run_status.RatesStatus(
    3217.7, 4000.0, 401.3, 3190.4, bytes_up_per_s=1.83e6
  ),
  reconnects=5,
  replay=run_status.ReplayStatus(42_310, 123_000, 987_000, 8.024, 50_000, 8.0),
  variables=run_status.VariablesStatus(771, 0.2134, 0.04931, 0.05),
  evaluation=run_status.EvaluationStatus(17, 312.35, 20, 301.5, 340.05),
  training_return=188.2,
  limits=run_status.Limits(
    environment_steps=1_000_000, wall_clock_s=1800.0, target_return=475.0
  ),
  nodes={
    "trainer": run_status.NodesStatus(1, 1),
    "worker": run_status.NodesStatus(3, 4),
    "evaluator": run_status.NodesStatus(1, 1),
  },
  waiting="workers wait for the trainer",
  proxy=run_status.ProxyStatus(connections=4),
  restarts=2,
  resumes=1,
  snapshots=run_status.SnapshotsStatus(3, age_s=12.3, pause_s=0.4),
)
ALL_UP = {"worker": run_status.NodesStatus(1, 1)}


def changed(status=STATUS, **fields):
  """Returns a status with changed fields.

  Args:
    status: the status to copy.
    **fields: new values by field name; a dict changes fields of a section.
  """
  for name, value in fields.items():
    whole = ("nodes", "machines", "monitors", "failed_hooks", "first_failures")
    if isinstance(value, dict) and name not in whole:
      section = getattr(status, name)
      fields[name] = msgspec.structs.replace(section, **value)
  return msgspec.structs.replace(status, **fields)


NOTHING_LOST = changed(nodes=ALL_UP, items_lost=0)


def make_console(width=80, height=40, terminal=True, encoding="utf-8"):
  file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
  return rich.console.Console(
    file=file,
    width=width,
    height=height,
    force_terminal=terminal,
    color_system=None,
    _environ={"TERM": "xterm"},
  )


def read_output(console):
  console.file.flush()
  return console.file.buffer.getvalue().decode(console.file.encoding)


def render_lines(status, **kwargs):
  console = make_console(**kwargs)
  console.print(rendering.render(status, console))
  return read_output(console).rstrip("\n").split("\n")


def render_text(status, **kwargs):
  """Returns the text of a panel without its borders, in one line."""
  lines = render_lines(status, **kwargs)
  return " ".join(" ".join(lines).replace("│", " ").split())


def render_colored(status):
  console = make_console()
  console._color_system = rich.console.ColorSystem.STANDARD
  with console.capture() as captured:
    console.print(rendering.render(status, console))
  return captured.get()
