"""Tests of a trainer's snapshots: they restore everything bit for bit."""

import shutil
import threading
import time

import msgspec
import numpy as np
import pytest
import reverb

from slipway.agents import registry
from slipway.agents.dqn import builder as builder_lib
from slipway.configs import prioritized_dqn
from slipway.environments import factory
from slipway.launch.control import messages, run_control, waits
from slipway.launch.control import rates as rates_lib
from slipway.launch.nodes import addresses, trainer_node
from slipway.launch.runs import (
  run_counters,
  run_folder,
  run_status,
  snapshot_store,
)
from slipway.replay.items import transitions
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import tables
from slipway.replay.transport import routes
from tests.launch import errors

COUNT = 200  # transitions
EXPECTED = {"worker": 1, "trainer": 1}


@pytest.fixture
def config():
  config = prioritized_dqn.get_config()
  config.network.hidden_sizes = (8,)
  config.replay.update({"min_size": COUNT, "samples_per_insert": 8.0})
  config.learner.update({"batch_size": 16, "steps_per_call": 5})
  return config


@pytest.fixture
def folder(tmp_path):
  return run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)


@pytest.fixture
def learners(monkeypatch):
  """Returns a list of all learners that are made after this call."""
  made, make_learner = [], builder_lib.Builder.make_learner

  def make_and_keep(*args):
    made.append(make_learner(*args))
    return made[-1]

  monkeypatch.setattr(builder_lib.Builder, "make_learner", make_and_keep)
  return made


@pytest.fixture
def start(config, folder, learners):
  """Yields a function that starts a trainer and a control of the run."""
  started = []

  def start(earlier=None, **replay):
    config.replay.update(replay)
    port = addresses.reserve_port()
    address = f"localhost:{port.getsockname()[1]}"
    spec = factory.make_spec(config.environment)
    rates = rates_lib.Rates.from_config(config, spec)
    control = run_control.RunControl(
      config, folder, EXPECTED, time.time(), rates, earlier=earlier
    )
    made = len(learners)
    node = trainer_node.TrainerNode(
      config, spec, folder, [address], None, address, None, control
    )
    (node.learner,) = learners[made:]
    node.address, node.control, node.port = address, control, port
    started.append(node)
    return node

  yield start
  for node in started:
    stop(node)


def stop(node):
  node.trainer.close()
  node.close()


def report(node, incarnation=1.0, **worker):
  own = msgspec.structs.replace(node.report(), incarnation=incarnation)
  node.control.report("trainer", 0, own)
  counts = run_status.NodeCounts(**worker)
  node.control.report("worker", 0, messages.WorkerReport(incarnation, counts))


def write(node, config):
  table = registry.make_builder(config.agent).make_table(
    config, factory.make_spec(config.environment)
  )
  random = np.random.default_rng(0)
  records = table.schema.record.pack(
    {
      "o_tm1": random.normal(size=(COUNT, 4)),
      "a_tm1": random.integers(2, size=COUNT),
      "r_t": random.normal(size=COUNT),
      "discount_t": np.full(COUNT, 0.9),
      "o_t": random.normal(size=(COUNT, 4)),
      transitions.VERSION: np.ones(COUNT),
    }
  )
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(node.address), tables.TRANSITIONS
  )
  assert writer.wait(timeout_s=30)
  writer.write(records, random.uniform(1.0, 9.0, COUNT))
  assert writer.close(timeout_s=30)


def learned(node):
  """Returns all values of the learner in a flat dictionary."""
  values = {}
  for name, part in node.learner.checkpointed.items():
    variables = getattr(part, "variables", [part])
    variables = variables() if callable(variables) else variables
    for index, variable in enumerate(variables):
      values[name, index] = variable.numpy()
  return values


def held(node):
  """Returns the priority and the record of each item, by its key."""
  client = reverb.Client(node.address)
  found = {}
  while len(found) < COUNT:
    for item in client.sample(tables.TRANSITIONS, 200, emit_timesteps=False):
      found[item.info.key] = (
        item.info.priority,
        np.array(item.data).tobytes(),
      )
  return found


def save(node, timeout_s=60.0):
  node._snapshots.finish(node.trainer.version, lambda: timeout_s)


def test_a_snapshot_restores_everything_bit_identically(start, config, folder):
  first = start(samples_per_insert=0.0)
  write(first, config)
  while first.trainer.step() < 50:
    pass
  first.control.evaluated(messages.Evaluation([33.0], [33], 7, [30.0, 40.0]))
  report(first, env_steps=900, items_written=220, items_confirmed=200)
  save(first)
  before = learned(first), held(first), first.control.status()
  # The restart loses the steps after the snapshot.
  while first.trainer.step() < 70:
    pass
  stop(first)

  snapshot = snapshot_store.SnapshotStore(folder).newest()
  assert (snapshot.number, snapshot.best) == (1, 1)
  counters = run_counters.RunCounters.read(snapshot.path)
  assert counters.status.trainer_steps == 50
  assert counters.status.variables.version == first.trainer.version - 1

  second = start()
  assert held(second) == before[1]
  for name, value in learned(second).items():
    np.testing.assert_array_equal(value, before[0][name], err_msg=str(name))
  assert second.trainer.version == counters.status.variables.version + 1
  status = second.control.status()
  assert status.env_steps == before[2].env_steps
  assert status.trainer_steps == before[2].trainer_steps
  assert status.items_written == before[2].items_written
  assert status.items_confirmed == before[2].items_confirmed
  assert status.evaluation.best_mean_return == 35.0
  assert status.evaluation.count == 1
  assert status.resumes == 1
  assert second.trainer.step() > 50
  report(second, incarnation=2.0)
  assert second.control.status().trainer_steps == second.trainer.step() - 5


def test_a_version_exceeds_all_that_a_lost_trainer_has_published(start, config):
  first = start(samples_per_insert=0.0)
  write(first, config)
  while first.trainer.step() < 20:
    pass
  report(first)
  save(first)
  while first.trainer.step() < 60:
    pass
  report(first)
  published = first.trainer.version
  stop(first)

  # Processes outside of the run may still have the newest version.
  second = start(earlier=first.control.abandon())
  assert second.control.status().trainer_steps == 20
  assert second.control.status().resumes == 1
  report(second, incarnation=2.0)
  assert second.trainer.version == published + 1


def test_training_continues_after_a_failed_snapshot(start, config, folder):
  node = start(samples_per_insert=0.0)
  write(node, config)
  save(node)
  (folder.snapshots / ".000002").write_text("in the way")
  with errors.one_line(
    "the last snapshot is not written (",
    "a resumed run continues from snapshot 1",
    error=RuntimeError,
  ):
    save(node)
  assert node.report().snapshots.written == 1
  (folder.snapshots / ".000002").unlink()
  assert node.trainer.step() > 0
  save(node)
  assert node.report().snapshots.written == 2


def test_another_network_is_rejected(start, config):
  first = start(samples_per_insert=0.0)
  save(first)
  stop(first)
  config.network.hidden_sizes = (9,)
  with pytest.raises(ValueError, match="does not fit this config's") as error:
    start()
  assert "\n" not in str(error.value)


def test_lost_snapshots_are_restored_from_the_store(
  start, config, folder, tmp_path
):
  config.snapshot.url = f"file://{tmp_path / 'shared'}"
  first = start(samples_per_insert=0.0)
  write(first, config)
  while first.trainer.step() < 50:
    pass
  first.control.evaluated(messages.Evaluation([33.0], [33], 7, [30.0, 40.0]))
  report(first, env_steps=900)
  save(first)  # also uploads the snapshot
  assert first.report().snapshots.uploaded == 1
  before = learned(first), held(first)
  stop(first)
  shared = tmp_path / "shared" / "a-run" / "snapshots"

  shutil.rmtree(folder.snapshots)
  second = start()
  assert second.report().snapshots.written == 1
  assert held(second) == before[1]
  for name, value in learned(second).items():
    np.testing.assert_array_equal(value, before[0][name], err_msg=str(name))
  assert second.control.status().env_steps == 900
  report(second, incarnation=2.0)
  save(second)
  # The restored best return keeps the new snapshot from becoming the best.
  assert snapshot_store.SnapshotStore(folder).newest().best == 1
  assert sorted(path.name for path in shared.iterdir()) == [
    *("000001", "000002")
  ]


def test_training_continues_after_a_failed_upload(start, config, tmp_path):
  config.snapshot.url = f"file://{tmp_path / 'shared'}"
  node = start(samples_per_insert=0.0)
  write(node, config)
  (tmp_path / "shared").write_text("in the way")
  save(node, timeout_s=10.0)
  found = node.report().snapshots
  assert found.written == 1 and found.uploaded is None
  assert found.upload_failures > 1  # the upload was repeated
  report(node)
  status = node.control.status().snapshots
  assert status.upload_failures >= found.upload_failures
  (tmp_path / "shared").unlink()
  assert node.trainer.step() > 0
  save(node)
  assert node.report().snapshots.uploaded == 2


def test_the_final_snapshot_follows_an_unfinished_one(start, config, folder):
  node = start(samples_per_insert=0.0)
  write(node, config)
  node.trainer.step()
  node._snapshots.start(node.trainer.version)
  steps = node.trainer.step()
  save(node)
  newest = snapshot_store.SnapshotStore(folder).newest()
  assert (
    run_counters.RunCounters.read(newest.path).status.trainer_steps == steps
  )
  assert node.report().snapshots.written == 2


def test_a_final_snapshot_that_takes_too_long_is_abandoned(
  start, config, folder, caplog
):
  node = start(samples_per_insert=0.0)
  write(node, config)
  node._snapshots.finish(node.trainer.version, lambda: 0.0)
  assert "it was the first one, and the run can't be resumed" in caplog.text
  assert node.report().snapshots.late
  node._snapshots.wait(60)
  node.trainer.step()
  node._snapshots.finish(node.trainer.version, lambda: 0.0)
  assert "a resumed run continues from snapshot 1" in caplog.text
  assert snapshot_store.SnapshotStore(folder).newest().number == 1
  node._snapshots.wait(60)
  assert snapshot_store.SnapshotStore(folder).newest().number == 2


def test_a_signal_shortens_the_time_for_the_final_snapshot(
  start, config, monkeypatch
):
  node = start(samples_per_insert=0.0)
  write(node, config)
  counters, reports = node.control.counters, []
  signalled, ends = threading.Event(), threading.Event()

  def hang():
    reports.append(node.report())
    signalled.set()
    ends.wait(60.0)  # as on a slow disk
    return counters()

  monkeypatch.setattr(node.control, "counters", hang)
  node._snapshots.finish(
    node.trainer.version, lambda: 0.0 if signalled.is_set() else 600.0
  )
  assert node.report().snapshots.late
  assert node.report().snapshots.finishing_s is None
  assert reports[0].snapshots.finishing_s is not None
  assert reports[0].wait.reason == waits.LAST_SNAPSHOT
  ends.set()
  node._snapshots.wait(60)
