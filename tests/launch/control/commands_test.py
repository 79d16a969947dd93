"""Tests of the commands that the nodes of a run receive."""

import pytest

from slipway.launch.control import commands, messages

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
def test_a_command(steps_per_s, workers, fraction, role, share, paused):
  run = commands.Commands(workers, steps_per_s, paused)
  command = run.for_node(role, stopping=True, proxy_share=fraction)
  assert command == messages.Command(
    False, paused, share, workers=workers * (role in ("worker", "trainer"))
  )


def test_only_external_processes_are_told_to_stop():
  run = commands.Commands(workers=2, steps_per_s=60.0)
  roles = ("worker", "proxy", "trainer", "replay", "evaluator", "external")
  told = {role for role in roles if run.for_node(role, stopping=True).stop}
  assert told == {"external"}
  assert not run.for_node("external", stopping=False).stop


def test_fields_for_the_trainer():
  run = commands.Commands(1, trainer_steps_limit=70, saves_requested=2)
  assert run.for_node("trainer", False, 5) == messages.Command(
    workers=1, trainer_steps_limit=70, saves_requested=2, collected_version=5
  )
  for role in ("proxy", "evaluator"):
    assert run.for_node(role, False, 5) == messages.Command()
