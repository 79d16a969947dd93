"""Tests of the commands that the nodes of a run receive."""

import pytest

from slipway.launch.orchestration import commands, messages

# rate in steps/s, workers, a proxy's fraction of the rate, role, the node's
# rate in steps/s
SHARES = [
  (0.0, 4, 1.0, "worker", 0.0),
  (100.0, 4, 1.0, "worker", 25.0),
  (100.0, 4, 1.0, "proxy", 100.0),
  (100.0, 4, 0.25, "proxy", 25.0),
  (100.0, 4, 1.0, "trainer", 0.0),
  (100.0, 4, 1.0, "evaluator", 0.0),
  (100.0, 4, 1.0, "replay", 0.0),
  (100.0, 0, 1.0, "trainer", 0.0),
  (100.0, 0, 1.0, "proxy", 100.0),
]


@pytest.mark.parametrize(
  ("steps_per_s", "workers", "fraction", "role", "share"), SHARES
)
@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("stop", [False, True])
def test_a_command(steps_per_s, workers, fraction, role, share, paused, stop):
  run = commands.Commands(workers, steps_per_s, paused)
  command = run.for_node(role, 0, stop, proxy_share=fraction)
  assert command == messages.Command(
    stop, paused, share, workers=workers * (role in ("worker", "trainer"))
  )


def test_surplus_workers_stop():
  run = commands.Commands(workers=2, steps_per_s=60.0)
  found = [run.for_node("worker", i, stop=False) for i in range(3)]
  assert [command.stop for command in found] == [False, False, True]
  assert found[0].workers == 2
  assert found[0].steps_per_s == 30.0


def test_without_workers_every_worker_stops():
  run = commands.Commands(workers=0, steps_per_s=60.0)
  assert run.for_node("worker", 0, stop=False).stop


def test_fields_for_the_trainer():
  run = commands.Commands(1, trainer_steps_limit=70, saves_requested=2)
  assert run.for_node("trainer", 0, False, 5) == messages.Command(
    workers=1, trainer_steps_limit=70, saves_requested=2, collected_version=5
  )
  for role in ("proxy", "evaluator"):
    assert run.for_node(role, 0, False, 5) == messages.Command()
