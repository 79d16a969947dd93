"""Tests of the placement of node groups, as machines join and leave."""

import re

import pytest

from slipway.configs import apex_dqn, bc
from slipway.launch.machines import placement as placement_lib


def machine(number, cpus=4.0, gpus=0.0):
  """Returns a machine; machine 0 starts the run."""
  name = f"10.0.0.{number}"
  return placement_lib.Machine(str(number), name, cpus, gpus, number == 0)


def make(**topology):
  config = apex_dqn.get_config()
  config.topology.update({"workers": 2, **topology})
  return placement_lib.Placement(config)


def filled(placement, *machines):
  return {group.name: machine.id for group, machine in placement.fill(machines)}


def test_groups_follow_from_the_topology():
  placement = make(machines=2, home_workers=1)
  groups = {p.name: p for p, _ in placement.fill([*map(machine, range(3))])}
  assert groups["home"].nodes == (
    ("trainer", 0),
    ("proxy", 0),
    ("worker", 0),
    ("evaluator", 0),
  )
  assert groups["workers/1"].nodes == (
    ("proxy", 1),
    ("worker", 1),
    ("worker", 2),
  )
  assert groups["workers/2"].nodes == (
    ("proxy", 2),
    ("worker", 3),
    ("worker", 4),
  )
  assert [p.first_worker for p in groups.values()] == [0, 1, 3]
  assert [p.cpus for p in groups.values()] == [2.0, 2.0, 2.0]
  assert placement.expected == {
    "replay": 0,
    "trainer": 1,
    "evaluator": 1,
    "proxy": 3,
    "worker": 5,
  }


def test_a_trainer_on_its_own_machine():
  placement = make(
    trainer_machine="own", trainer_gpus=1.0, replay="own_process"
  )
  small, large = machine(1), machine(2, gpus=1.0)
  groups = dict(
    (group.name, (group, machine.id))
    for group, machine in placement.fill([machine(0), small, large])
  )
  group, where = groups["trainer"]
  assert group.nodes == (("replay", 0), ("trainer", 0))
  assert where == "2"
  assert ("trainer", 0) not in groups["home"][0].nodes
  assert groups["workers/1"][1] == "1"


def test_behaviour_cloning_which_has_no_table():
  config = bc.get_config()
  config.topology.replay = "own_process"
  placement = placement_lib.Placement(config)
  assert not placement.find_missing([machine(0), machine(1)], "head:1")
  assert filled(placement, machine(0)) == {"home": "0"}
  assert placement.expected == {
    "replay": 1,  # serves the variables
    "trainer": 1,
    "evaluator": 1,
    "proxy": 1,
    "worker": 0,
  }


# topology, machines, words that the error must contain
REJECTED = [
  ({"machines": 3}, [machine(0), machine(1)],
   ["needs 4 machines", "has 2", "10.0.0.1 with 4 CPUs", "'workers/2'"]),
  ({}, [machine(0)], ["needs 2 machines", "'workers/1'", "2 CPUs"]),
  ({"machines": 1, "cpus_per_worker": 3.0}, [machine(0), machine(1)],
   ["6 CPUs of the node group 'workers/1'"]),
  ({"trainer_gpus": 1.0}, [machine(0), machine(1, gpus=1.0)],
   ["and 1 GPUs of the node group 'home'"]),
  ({"machines": 1}, [machine(1), machine(2)], ["'home'"]),
]  # fmt: skip


@pytest.mark.parametrize("topology, machines, words", REJECTED)
def test_too_few_machines(topology, machines, words):
  line = make(**topology).find_missing(machines, "10.0.0.0:6379")
  assert "\n" not in line and "--wait_for_machines" in line
  for phrase in words:
    assert re.search(re.escape(phrase), line), line


def test_all_machines_are_used_by_default():
  placement = make()
  assert not placement.find_missing([machine(0), machine(1)], "head:1")
  assert filled(placement, machine(0), machine(1)) == {
    "home": "0",
    "workers/1": "1",
  }
  # Two machines join, one of which is too small for a group.
  joined = [machine(2), machine(3, cpus=1.0)]
  assert filled(placement, machine(0), machine(1), *joined) == {
    "workers/2": "2"
  }
  assert placement.expected["worker"] == 4
  assert filled(placement, machine(0), machine(1), *joined) == {}


def test_no_more_machines_than_configured():
  placement = make(machines=1)
  everything = [*map(machine, range(4))]
  assert filled(placement, *everything) == {"home": "0", "workers/1": "1"}
  assert filled(placement, *everything) == {}


def test_a_lost_group_moves_to_a_spare_machine():
  placement = make(machines=2)
  filled(placement, *map(machine, range(3)))
  placement.unassign("workers/1")
  assert placement.absent == [("proxy", 1), ("worker", 0), ("worker", 1)]
  spare = [machine(0), machine(2), machine(7)]
  assert filled(placement, *spare) == {"workers/1": "7"}
  assert placement.absent == []


def test_a_lost_group_shares_a_machine_that_has_room():
  placement = make(machines=2)
  filled(placement, machine(0), machine(1, cpus=3.0), machine(2))
  placement.unassign("workers/2")
  # Next to the other group, the machine has one CPU too few.
  assert filled(placement, machine(0), machine(1, cpus=3.0)) == {}
  assert filled(placement, machine(0), machine(1, cpus=4.0)) == {
    "workers/2": "1"
  }


def test_a_machine_that_returns_gets_its_group_again():
  placement = make()
  filled(placement, *map(machine, range(3)))
  placement.unassign("workers/2")
  assert filled(placement, machine(0), machine(1, cpus=2.0)) == {}
  assert filled(placement, *map(machine, range(3))) == {"workers/2": "2"}
  assert placement.expected["worker"] == 4
