"""Tests of the stop order: the place of each role, and the longest duration."""

import pytest

from slipway.configs import dqn
from slipway.launch.machines import host_plan
from slipway.launch.orchestration import stop_order


def test_each_role_of_a_program_has_one_place():
  roles = sorted(host_plan.count_expected_nodes(dqn.get_config()))
  assert sorted(stop_order.ROLES) == roles


def test_all_groups_end_within_the_time_of_a_stop():
  assert stop_order.LONGEST_S < 10.0


def test_writers_stop_before_the_servers_that_they_write_to():
  place = {
    role: i for i, group in enumerate(stop_order.GROUPS) for role in group.roles
  }
  assert place["proxy"] == place["worker"]  # the proxy drains the workers
  assert place["proxy"] < place["trainer"] < place["replay"]


# role, seconds since the stop, roles that have ended, whether the role may stop
STOPS = [
  ("proxy", 0.0, set(), True),
  ("trainer", 0.0, set(), False),
  ("trainer", 4.4, {"worker", "proxy"}, False),
  ("trainer", 4.6, {"worker", "proxy"}, True),
  ("trainer", 0.1, {"worker", "proxy", "evaluator"}, True),
  ("replay", 8.4, {"worker", "proxy", "evaluator"}, False),
  ("replay", 0.1, {"worker", "proxy", "evaluator", "trainer"}, True),
  ("replay", 8.6, set(), True),
  # A group that hangs blocks replay, although the trainer has ended.
  ("replay", 0.1, {"trainer"}, False),
]


@pytest.mark.parametrize(("role", "waited_s", "ended", "may"), STOPS)
def test_stops(role, waited_s, ended, may):
  assert stop_order.may_stop(role, waited_s, ended.__contains__) == may


def test_an_unknown_role():
  with pytest.raises(ValueError, match="'trainor'") as error:
    stop_order.may_stop("trainor", 0.0, lambda role: True)
  assert "\n" not in str(error.value)
