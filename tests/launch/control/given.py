"""Reports of nodes, and a clock, that tests of the control share."""

import types

from slipway.launch.control import messages, waits
from slipway.launch.runs import run_status

EXPECTED = {"replay": 0, "trainer": 1, "worker": 3, "proxy": 1}


def workers(**values):
  """Returns reports of workers 0, 1, and so on.

  Args:
    **values: per field of the report, the values of the workers.
  """
  return [
    (
      "worker",
      index,
      make_worker_report(**dict(zip(values, node_values, strict=True))),
    )
    for index, node_values in enumerate(zip(*values.values(), strict=True))
  ]


def waiting(*waits_s, reason=waits.TABLE):
  """Returns reports of workers 0, 1, and so on, which wait for one reason."""
  return workers(wait=[waits.Wait(reason, wait_s) for wait_s in waits_s])


def set_clock(monkeypatch, *modules):
  """Gives modules a simulated clock, which a test sets by `clock.now_s`."""
  clock = types.SimpleNamespace(now_s=8.0)
  clock.monotonic = lambda: clock.now_s
  clock.time = lambda: 1.6e9 + clock.now_s
  for module in modules:
    monkeypatch.setattr(module, "time", clock)
  return clock


def make_worker_report(incarnation=0.0, **fields):
  """Returns a worker's report, given its counts and other fields by name."""
  names = run_status.NodeCounts.__struct_fields__
  counts = {name: fields.pop(name) for name in names if name in fields}
  return messages.WorkerReport(
    incarnation, run_status.NodeCounts(**counts), **fields
  )
