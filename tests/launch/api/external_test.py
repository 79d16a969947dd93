"""Tests of slipway.connect: runs that it rejects before it connects."""

import msgspec
import pytest

import slipway
from slipway.configs import bc, dqn
from slipway.launch.runs import (
  records,
  run_address,
  run_folder,
  run_lock,
  run_status,
)
from tests.launch import errors


def make_run(tmp_path, config):
  folder = run_folder.RunFolder.create(tmp_path, "a-run", False)
  folder.write_config(config)
  return folder


def publish(folder):
  where = run_address.RunAddress.of_this_process("/nowhere")
  run_address.path_in(folder).write_bytes(msgspec.json.encode(where))


def changed(**fields):
  config = dqn.get_config()
  with config.unlocked():
    config.update_from_flattened_dict(fields)
  return config


def test_no_run(tmp_path):
  with pytest.raises(ValueError, match="so it is not a run"):
    slipway.connect(tmp_path / "none")


def test_a_run_that_has_ended(tmp_path):
  folder = make_run(tmp_path, dqn.get_config())
  status = run_status.RunStatus(stopped_because="trainer_steps")
  folder.summary.write_bytes(records.to_json(status))
  with pytest.raises(slipway.RunEndedError, match="has ended: the limit of tr"):
    slipway.connect(folder.path)


def test_a_run_that_does_not_reply(tmp_path):
  folder = make_run(tmp_path, dqn.get_config())
  publish(folder)
  with pytest.raises(slipway.RunEndedError, match="a-run' does not reply: "):
    slipway.connect(folder.path)


@pytest.mark.parametrize(
  ("config", "line"),
  [
    (changed(mode="sync"), "config.mode='sync', which counts the steps of its"),
    (changed(**{"topology.proxy": False}), "config.topology.proxy=False"),
    (bc.get_config(), "learns from recorded data (config.agent='bc')"),
  ],
)
def test_a_run_that_takes_no_external_processes(tmp_path, config, line):
  folder = make_run(tmp_path, config)
  publish(folder)
  with run_lock.held(folder), errors.one_line(line):
    slipway.connect(folder.path)
