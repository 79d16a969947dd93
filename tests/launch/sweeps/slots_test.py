"""Tests of a run on a machine of a cluster, with a stand-in for Ray."""

import types

import pytest

from slipway.configs import dqn
from slipway.launch.runs import run_folder
from slipway.launch.sweeps import slot, sweep_folder
from tests import polling
from tests.launch import fake_ray

_PART_BYTES = 1_000  # no multiple of a block of a tar archive


@pytest.fixture
def ray_errors():
  with fake_ray.installed() as errors:
    yield errors


def test_a_folder_that_is_read_twice_is_whole(
  ray_errors, monkeypatch, tmp_path
):
  from slipway.launch.machines import cluster  # loads Ray
  from slipway.launch.sweeps import slots

  monkeypatch.setattr(slots, "_PERIOD_S", 0.0)
  there = tmp_path / "there"
  there.mkdir()
  (there / "best.npz").write_bytes(bytes(range(256)) * 16)
  archive, offsets = slot.pack(there), []

  def read_folder(offset):
    offsets.append(offset)
    if len(offsets) == 2:
      raise ray_errors.ActorUnavailableError("for a moment")
    return archive[offset : offset + _PART_BYTES]

  actor = fake_ray.Actor(
    poll=lambda stops: slot.SlotReport(0, b"", {}),
    read_folder=read_folder,
    close=lambda: None,
  )
  here = run_folder.RunFolder(tmp_path / "0-1")
  process = slots.SlotProcess(
    types.SimpleNamespace(start_actor=lambda *_: cluster.RemoteActor(actor)),
    1,
    sweep_folder.SweepRun(0, 1, here, tmp_path / "0-1.log"),
    dqn.get_config(),
  )
  polling.wait_until(lambda: process.poll() is not None)
  assert process.poll() == 0, process.run.log.read_text()
  assert offsets[:3] == [0, _PART_BYTES, 0]
  assert here.best.read_bytes() == (there / "best.npz").read_bytes()
