"""Tests of what gymnasium's registry has of an id."""

import pytest

from slipway.environments import ids


@pytest.mark.parametrize(
  ("name", "mode"),
  [
    ("CartPole-v1", "vector_entry_point"),
    ("ALE/Pong-v5", "vector_entry_point"),
    ("Pendulum-v1", "sync"),
    ("LunarLander-v3", "sync"),
    # JAX; with its autoreset, batches do not work
    ("phys2d/CartPole-v1", "sync"),
  ],
)
def test_vectorization_mode(name, mode):
  assert ids.get_vectorization_mode(ids.find_spec(name)) == mode
