"""Mode sync: workers and trainer alternate, as the run's own items show."""

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

pytestmark = [pytest.mark.runs, pytest.mark.timeout(180)]

# environment steps per round, and the trainer steps that they allow
ROUND, UPDATES = 800, 100


def count_by_version(folder, config):
  """Counts the table's transitions per version of the variables."""
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


def test_each_version_collects_one_round(start_run):
  run = start_run(
    "--mode=sync",
    "--config.topology.workers=2",
    "--config.topology.environments_per_worker=8",  # divide a round evenly
    "--config.replay.sampler=uniform",
    "--config.replay.transitions_per_item=1",  # each item has one version
    # A round's last two steps become transitions in the next round only.
    "--config.adder.n_step=3",
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
  # Two or three rounds precede the first update. The rounds with updates
  # follow; the first of them have fewer updates. A last round may have begun
  # while the limit stopped the run.
  versions = sorted(counts)
  assert versions == list(range(1, len(versions) + 1))
  assert len(versions) in (8, 9, 10)
  # A transition has the version of its first step. A round counts resets, too,
  # which are up to one step of ten.
  for version in versions[:-2]:
    assert 0.85 * ROUND < counts[version] <= ROUND, counts
  # The ratio is that of the config, except for the last round.
  assert 6.8 < summary["replay"]["samples_per_insert"] < 8.2


# Three workers with 8 environments make 48 steps instead of 30.
UNEVEN = (
  "--mode=sync",
  "--config.topology.workers=3",
  "--config.sync.environment_steps=30",
  "--config.replay.transitions_per_item=1",
)
SHARDED = (
  "--config.replay.shards=2",  # one shard gets two thirds of the items
  "--config.topology.replay=own_process",
)


@pytest.mark.parametrize("flags", [UNEVEN, UNEVEN + SHARDED])
def test_the_ratio_holds_where_workers_make_more_steps(start_run, flags):
  run = start_run(*flags, "--config.limits.trainer_steps=500")
  assert run.wait() == 0, run.stderr
  assert run.summary["replay"]["samples_per_insert"] == pytest.approx(
    8.0, rel=0.05
  )
  # The tables' counts are restored, so the resumed run has no updates to catch
  # up.
  more = start_run("--config.limits.trainer_steps=700", resume=True)
  assert more.wait() == 0, more.stderr
  assert more.summary["trainer_steps"] == 700
  assert more.summary["replay"]["samples_per_insert"] == pytest.approx(
    8.0, rel=0.05
  )
