"""Tests of the admission to a Ray cluster, without a cluster."""

import importlib.util

import pytest

from slipway.launch.machines import admission


def test_a_missing_ray_is_reported_with_its_remedy(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  with pytest.raises(ValueError, match="make setup-ray") as caught:
    admission.authenticate("10.0.0.1:6379", insecure=False)
  assert "\n" not in str(caught.value)
