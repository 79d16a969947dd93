"""Mode sync: workers and trainer in turns, as the run's own rows tell."""

import collections

import portpicker
import pytest
import reverb

from slipway.agents import registry
from slipway.environments import factory
from slipway.launch.nodes import snapshot_writer
from slipway.launch.runs import run_folder, snapshot_store
from slipway.replay.items import transitions
from slipway.replay.tables import tables, trajectory_manager
from slipway.replay.variables import variables

pytestmark = pytest.mark.timeout(180)

ROUND, UPDATES = 800, 100  # environment steps, and what they grant


def count_by_version(folder, config):
  """How many transitions the table has of each version of the variables."""
  table = registry.make_builder(config.agent).make_table(
    config, factory.make_spec(config.environment)
  )
  snapshot = snapshot_store.SnapshotStore(folder).newest()
  manager = trajectory_manager.TrajectoryManager(
    [tables.make_table(table, table.round_limiter), variables.make_table()],
    portpicker.pick_unused_port(),
    folder.path / "restoring",
    snapshot.path / snapshot_writer.TABLES,
  )
  counts, seen = collections.Counter(), set()
  client = reverb.Client(manager.address)
  size = manager.status(tables.TRANSITIONS).size
  while len(seen) < size:
    for item in client.sample(tables.TRANSITIONS, 2_000, emit_timesteps=False):
      if item.info.key not in seen:
        seen.add(item.info.key)
        fields = table.schema.record.unpack(item.data[0][None])
        counts[int(fields[transitions.VERSION][0])] += 1
  manager.close()
  return counts


def test_each_version_makes_one_share_and_grants_one_turn(start_run):
  run = start_run(
    "--mode=sync",
    "--config.replay.sampler=uniform",
    "--config.replay.transitions_per_item=1",  # of one version each
    "--config.adder.n_step=3",  # all but the last two steps of the version
    "--config.replay.min_size=1_600",
    f"--config.sync.environment_steps={ROUND}",
    f"--config.limits.trainer_steps={6 * UPDATES}",
  )
  assert run.wait() == 0, run.stderr
  run.check_nothing_left()
  summary = run.summary
  assert summary["mode"] == "sync"
  assert summary["trainer_steps"] == 6 * UPDATES
  assert summary["items_lost"] == 0
  folder = run_folder.RunFolder.open(run.path)
  counts = count_by_version(folder, folder.read_config())
  # Two shares before the first update, one for each turn, and what was begun
  # while the limit stopped the run.
  versions = sorted(counts)
  assert versions == list(range(1, len(versions) + 1))
  assert len(versions) in (7, 8, 9)
  # A share is of environment steps: resets are none, and the last steps of the
  # episodes that go on become transitions with the next version's first.
  for version in versions[:-2]:
    assert 0.85 * ROUND < counts[version] <= 1.02 * ROUND, counts
  # Learning has the ratio that the config asks for.
  assert 6.0 < summary["samples_per_insert"] < 11.0
