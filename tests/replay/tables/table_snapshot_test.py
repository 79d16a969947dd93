"""Tests of table snapshots: kept state, changed settings, and errors."""

import threading

import numpy as np
import portpicker
import pytest
import reverb

from slipway.replay.items import packing as packing_lib
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import table_snapshot, tables, trajectory_manager
from slipway.replay.transport import routes
from slipway.replay.variables import variables
from tests.replay import given

PACKING = packing_lib.Packing({"x": (np.dtype(np.int64), ())})
FIELDS = {
  "capacity": 50,
  "min_size": 20,
  "samples_per_insert": 4.0,
  "priority_exponent": 0.6,
}


def serve(
  tmp_path,
  restored=False,
  others=(),
  packing=PACKING,
  is_sync=False,
  **fields,
):
  spec = given.make_table_spec(packing.record_bytes, **{**FIELDS, **fields})
  limiter = spec.round_limiter if is_sync else spec.limiter
  return trajectory_manager.TrajectoryManager(
    [tables.make_table(spec, limiter), *others],
    portpicker.pick_unused_port(),
    tmp_path / "replay",
    tmp_path / "saved" if restored else None,
  )


def start_saver(manager, path, saving_dir=None):
  return table_snapshot.TableSaver(
    manager.address, saving_dir or path.parent / "replay", path
  )


def write(manager, count):
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(manager.address), tables.TRANSITIONS
  )
  assert writer.wait(timeout_s=20)
  values = np.arange(count)
  writer.write(PACKING.pack({"x": values}), 0.5 + values)
  assert writer.close(timeout_s=20)


def sample(manager, count):
  client = reverb.Client(manager.address)
  return list(client.sample(tables.TRANSITIONS, count, emit_timesteps=False))


def info(manager):
  return reverb.Client(manager.address).server_info(5)[tables.TRANSITIONS]


def priorities(manager, count):
  return {item.info.key: item.info.priority for item in sample(manager, count)}


@pytest.fixture
def saved(tmp_path):
  """Snapshot of 20 items and 30 samples; one item has nearly all the weight."""
  manager = serve(tmp_path)
  write(manager, 20)
  samples = sample(manager, 30)
  client = reverb.Client(manager.address)
  client.mutate_priorities(tables.TRANSITIONS, {samples[0].info.key: 1e12})
  start_saver(manager, tmp_path / "saved").finish()
  manager.close()
  return tmp_path / "saved"


def test_counts_and_settings_are_equal_with_an_equal_config(tmp_path, saved):
  manager = serve(tmp_path, restored=True)
  found = info(manager)
  limiter = found.rate_limiter_info
  assert (found.current_size, found.max_size) == (20, 50)
  assert limiter.insert_stats.completed == 20
  assert limiter.sample_stats.completed == 30
  assert limiter.samples_per_insert == 4.0
  assert limiter.min_size_to_sample == 20
  # The weights of the other items add up to 75, that of this one is 16 million.
  assert 1e12 in priorities(manager, 10).values()
  manager.close()


def test_order_is_kept(tmp_path, saved):
  manager = serve(
    tmp_path,
    restored=True,
    capacity=20,
    samples_per_insert=0.0,
    priority_exponent=0.0,
  )
  write(manager, 15)  # evicts the 15 oldest items
  seen = {
    int(PACKING.unpack(np.array(item.data))["x"][0])
    for item in sample(manager, 4_000)  # 200 samples per item on average
  }
  assert seen == set(range(20))  # 0 to 14 are new, 15 to 19 restored
  manager.close()


def test_the_config_is_applied(tmp_path, saved):
  manager = serve(
    tmp_path, restored=True, capacity=30, min_size=10, priority_exponent=0.0
  )
  found = info(manager)
  assert found.max_size == 30
  assert found.rate_limiter_info.min_size_to_sample == 10
  assert found.sampler_options.prioritized.priority_exponent == 0.0
  manager.close()


# 20 inserts grant 20 * ratio samples. The difference from the number of samples
# must be within the limiter's bounds.
@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0, 64.0, 0.0])
def test_another_ratio_leaves_nothing_to_catch_up(tmp_path, saved, ratio):
  manager = serve(tmp_path, restored=True, samples_per_insert=ratio)
  limiter = info(manager).rate_limiter_info
  inserted = limiter.insert_stats.completed
  difference = (
    inserted * limiter.samples_per_insert - limiter.sample_stats.completed
  )
  assert inserted == 20
  assert limiter.min_diff <= difference <= limiter.max_diff
  write(manager, 2)  # neither side blocks for long
  assert len(sample(manager, 1)) == 1
  manager.close()


# Ratio, minimum size, and number of samples after a resume in mode 'sync'. The
# snapshot has 20 inserts and 30 samples.
ROUNDS = [
  (4.0, 20, 30),
  (4.0, 10, 40),
  (0.25, 20, 0),
  (0.25, 7, 4),
  (64.0, 20, 0),
  (64.0, 10, 640),
]


@pytest.mark.parametrize(("ratio", "min_size", "sampled"), ROUNDS)
def test_another_ratio_leaves_nothing_to_catch_up_in_sync_mode(
  tmp_path, saved, ratio, min_size, sampled
):
  check_restored(
    tmp_path,
    sampled,
    is_sync=True,
    samples_per_insert=ratio,
    min_size=min_size,
  )


def counts(manager):
  """Returns the table's size, and its inserts and samples."""
  status = manager.status(tables.TRANSITIONS)
  return status.size, status.inserted, status.sampled


def check_restored(tmp_path, sampled, **fields):
  """Asserts that a restored table has 20 items and `sampled` samples."""
  manager = serve(tmp_path, restored=True, **fields)
  assert counts(manager) == (20, 20, sampled)
  manager.close()


# Whether the resumed run has mode 'sync', its ratio (0: none), its minimum
# size, and the number of samples after the resume.
AFTER_NO_RATIO = [
  (True, 1.0, 20, 0),
  (True, 1.0, 5, 15),
  (True, 4.0, 20, 0),
  (False, 0.0, 20, 70),
  (False, 0.0, 10, 70),
]


@pytest.mark.parametrize(
  ("is_sync", "ratio", "min_size", "sampled"), AFTER_NO_RATIO
)
def test_a_ratio_after_a_run_without_one(
  tmp_path, is_sync, ratio, min_size, sampled
):
  manager = serve(tmp_path, samples_per_insert=0.0)
  write(manager, 20)
  assert len(sample(manager, 70)) == 70
  start_saver(manager, tmp_path / "saved").finish()
  manager.close()
  check_restored(
    tmp_path,
    sampled,
    is_sync=is_sync,
    samples_per_insert=ratio,
    min_size=min_size,
  )


@pytest.mark.parametrize("ratio", [1.0, 4.0])
def test_an_equal_ratio_keeps_the_count_of_samples(tmp_path, ratio):
  fields = {"is_sync": True, "samples_per_insert": ratio}
  manager = serve(tmp_path, **fields)
  write(manager, 20)
  assert len(sample(manager, 7)) == 7
  start_saver(manager, tmp_path / "saved").finish()
  manager.close()
  check_restored(tmp_path, 7, **fields)


QUEUE = {"is_queue": True, "priority_exponent": None}


@pytest.mark.parametrize("capacity", [50, 12, 5])
def test_a_queue_keeps_its_items(tmp_path, capacity):
  """If the items exceed the new capacity, only inserts block."""
  manager = serve(tmp_path, **QUEUE)
  write(manager, 20)
  assert len(sample(manager, 8)) == 8
  start_saver(manager, tmp_path / "saved").finish()
  manager.close()
  manager = serve(tmp_path, restored=True, **QUEUE, capacity=capacity)
  limiter = info(manager).rate_limiter_info
  assert (limiter.min_diff, limiter.max_diff) == (0.0, capacity)
  assert counts(manager) == (12, 20, 8)
  values = [
    int(PACKING.unpack(np.array(item.data))["x"][0])
    for item in sample(manager, 12)
  ]
  assert values == list(range(8, 20))
  assert manager.status(tables.TRANSITIONS).size == 0
  write(manager, 5)
  assert len(sample(manager, 5)) == 5
  manager.close()


def test_a_capacity_below_the_size_is_rejected(tmp_path, saved):
  with pytest.raises(ValueError) as error:
    serve(tmp_path, restored=True, capacity=19, min_size=10)
  message = str(error.value)
  assert "20 items" in message and "capacity is 19" in message
  assert "\n" not in message


def test_another_schema_is_rejected(tmp_path, saved):
  wider = packing_lib.Packing({"x": (np.dtype(np.int64), (2,))})
  with pytest.raises(ValueError, match="another schema") as error:
    serve(tmp_path, restored=True, packing=wider)
  assert "\n" not in str(error.value)


def test_other_tables_are_rejected(tmp_path, saved):
  with pytest.raises(ValueError, match="has the tables") as error:
    serve(tmp_path, restored=True, others=[variables.make_table()])
  assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["tables", "items", "chunks"])
def test_a_damaged_file_is_rejected(tmp_path, saved, name):
  path = saved / f"{name}.tfrecord"
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 0xFF
  path.write_bytes(content)
  with pytest.raises(ValueError, match="resume from another snapshot"):
    serve(tmp_path, restored=True)


def test_inserts_after_the_copy_are_not_saved(tmp_path):
  manager = serve(tmp_path, samples_per_insert=0.0, capacity=60_000)
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(manager.address), tables.TRANSITIONS
  )
  records, ones = PACKING.pack({"x": np.arange(16)}), np.ones(16)
  stop = threading.Event()

  def run():
    while not stop.is_set():
      if writer.wait(timeout_s=0.5):
        writer.write(records, ones)
    writer.close(timeout_s=20)

  thread = threading.Thread(target=run)
  thread.start()
  while manager.status(tables.TRANSITIONS).size < 5_000:
    stop.wait(0.01)
  before = manager.status(tables.TRANSITIONS).inserted
  saver = start_saver(manager, tmp_path / "saved")
  while not saver.wait_copied(timeout_s=0.1):
    pass
  after = manager.status(tables.TRANSITIONS).inserted
  stop.set()
  thread.join()
  saver.finish()
  manager.close()
  manager = serve(
    tmp_path, restored=True, samples_per_insert=0.0, capacity=60_000
  )
  restored = manager.status(tables.TRANSITIONS)
  assert before <= restored.inserted <= after
  assert restored.size == restored.inserted
  manager.close()


def test_an_error_while_saving_is_raised_in_its_owner(tmp_path):
  manager = serve(tmp_path)
  write(manager, 5)
  saver = start_saver(
    manager, tmp_path / "missing" / "saved", tmp_path / "replay"
  )
  while not saver.wait_copied(timeout_s=0.1):
    pass
  with pytest.raises(FileNotFoundError):
    saver.finish()
  start_saver(manager, tmp_path / "saved").finish()
  manager.close()


def test_files_that_are_no_checkpoint_are_rejected(tmp_path):
  (tmp_path / "saved").mkdir()
  with pytest.raises(ValueError, match="not a checkpoint of tables"):
    table_snapshot.copy_with_settings(
      tmp_path / "saved", tmp_path / "fitted", []
    )
