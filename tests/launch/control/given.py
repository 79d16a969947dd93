"""Reports of nodes, and a clock, that tests of the control share."""

import types

from slipway.launch.control import messages, waits

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
      messages.WorkerReport(**dict(zip(values, node_values, strict=True))),
    )
    for index, node_values in enumerate(zip(*values.values(), strict=True))
  ]


def waiting(*waits_s, reason=waits.TABLE):
  """Returns reports of workers 0, 1, and so on, which wait for one reason."""
  return workers(waiting_s=waits_s, waiting_for=[reason] * len(waits_s))


def set_clock(monkeypatch, *modules):
  """Gives modules a simulated clock, which a test sets by `clock.now_s`."""
  clock = types.SimpleNamespace(now_s=8.0)
  clock.monotonic = lambda: clock.now_s
  clock.time = lambda: 1.6e9 + clock.now_s
  for module in modules:
    monkeypatch.setattr(module, "time", clock)
  return clock
