"""Tests of calls of a cluster's actors, with a stand-in for Ray."""

import pytest

from tests.launch import fake_ray


@pytest.fixture
def ray_errors():
  with fake_ray.installed() as errors:
    yield errors


# Ray's error, and whether the actor may be called again
ERRORS = [
  ("GetTimeoutError", True),
  ("ActorUnavailableError", True),
  ("ActorDiedError", False),
  ("ActorUnschedulableError", False),
  ("OutOfMemoryError", False),
  ("RuntimeEnvSetupError", False),
]


@pytest.mark.parametrize(("name", "may_continue"), ERRORS)
def test_an_actor_without_a_result_is_slow_or_dead(
  ray_errors, name, may_continue
):
  from slipway.launch.machines import cluster  # loads Ray

  def poll():
    raise getattr(ray_errors, name)("of the test")

  actor = cluster.RemoteActor(fake_ray.Actor(poll=poll))
  actor.call("poll")
  with pytest.raises(TimeoutError if may_continue else cluster.ActorDiedError):
    actor.get_result()
  assert actor.pending == (name == "GetTimeoutError")
