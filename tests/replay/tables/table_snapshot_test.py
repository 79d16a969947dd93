"""Tests of table snapshots: kept state, changed settings, and errors."""

import threading

import numpy as np
import pytest
import reverb

from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import table_snapshot, tables
from slipway.replay.transport import routes
from slipway.replay.variables import variables
from tests.replay import given, served

FIELDS = {
  "capacity": 50,
  "min_size": 20,
  "samples_per_insert": 4.0,
  "priority_exponent": 0.6,
}


def serve(tmp_path, restored=False, others=(), size=8, is_sync=False, **fields):
  spec = given.make_table_spec(size, **{**FIELDS, **fields})
  return served.serve(
    spec,
    spec.round_limiter if is_sync else spec.limiter,
    folders=(tmp_path / "replay", tmp_path / "saved" if restored else None),
    others=others,
  )


def write(manager, count):
  served.write(manager, served.numbers(0, count), 0.5 + np.arange(count))


def save(tmp_path, samples, **fields):
  """Saves a table of 20 items after some samples."""
  manager = serve(tmp_path, **fields)
  write(manager, 20)
  assert len(sample(manager, samples)) == samples
  start_saver(manager, tmp_path / "saved").finish()
  manager.close()


def start_saver(manager, path, saving_dir=None):
  return table_snapshot.TableSaver(
    manager.address, saving_dir or path.parent / "replay", path
  )


sample = served.sample


def info(manager):
  return reverb.Client(manager.address).server_info(5)[tables.TRANSITIONS]


@pytest.fixture
def saved(tmp_path):
  """Snapshot of 20 items and 30 samples."""
  save(tmp_path, 30)
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
  for item in sample(manager, 10):
    assert item.info.priority == 0.5 + served.number_of(item)
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
  # Each item has 200 samples on average.
  seen = {served.number_of(item) for item in sample(manager, 4_000)}
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


# Of the saved run: ratio (0: none), whether its mode is 'sync', and samples. Of
# the resumed run: ratio, whether its mode is 'sync', minimum size, and samples
# that it counts. The snapshot has 20 inserts.
RESUMED = [
  ((4.0, False, 30), (4.0, True, 20, 30)),
  ((4.0, False, 30), (4.0, True, 10, 40)),
  ((4.0, False, 30), (0.25, True, 20, 0)),
  ((4.0, False, 30), (0.25, True, 7, 4)),
  ((4.0, False, 30), (64.0, True, 20, 0)),
  ((4.0, False, 30), (64.0, True, 10, 640)),
  ((0.0, False, 70), (1.0, True, 20, 0)),
  ((0.0, False, 70), (1.0, True, 5, 15)),
  ((0.0, False, 70), (4.0, True, 20, 0)),
  ((0.0, False, 70), (0.0, False, 20, 70)),
  ((0.0, False, 70), (0.0, False, 10, 70)),
  # An equal ratio keeps the count of samples.
  ((1.0, True, 7), (1.0, True, 20, 7)),
  ((4.0, True, 7), (4.0, True, 20, 7)),
]


@pytest.mark.parametrize(("before", "after"), RESUMED)
def test_another_ratio_leaves_nothing_to_catch_up_in_sync_mode(
  tmp_path, before, after
):
  ratio, is_sync, samples = before
  save(tmp_path, samples, samples_per_insert=ratio, is_sync=is_sync)
  ratio, is_sync, min_size, sampled = after
  manager = serve(
    tmp_path,
    restored=True,
    is_sync=is_sync,
    samples_per_insert=ratio,
    min_size=min_size,
  )
  assert counts(manager) == (20, 20, sampled)
  manager.close()


def counts(manager):
  """Returns the table's size, and its inserts and samples."""
  status = manager.status(tables.TRANSITIONS)
  return status.size, status.inserted, status.sampled


QUEUE = {"is_queue": True, "priority_exponent": None}


@pytest.mark.parametrize("capacity", [50, 12, 5])
def test_a_queue_keeps_its_items(tmp_path, capacity):
  """If the items exceed the new capacity, only inserts block."""
  save(tmp_path, 8, **QUEUE)
  manager = serve(tmp_path, restored=True, **QUEUE, capacity=capacity)
  limiter = info(manager).rate_limiter_info
  assert (limiter.min_diff, limiter.max_diff) == (0.0, capacity)
  assert counts(manager) == (12, 20, 8)
  values = [served.number_of(item) for item in sample(manager, 12)]
  assert values == list(range(8, 20))
  assert manager.status(tables.TRANSITIONS).size == 0
  write(manager, 5)
  assert len(sample(manager, 5)) == 5
  manager.close()


@pytest.mark.parametrize(
  ("changes", "line"),
  [
    ({"capacity": 19, "min_size": 10}, r"20 items.*capacity is 19"),
    ({"size": 16}, "another schema"),
  ],
)
def test_a_table_that_does_not_fit_is_rejected(tmp_path, saved, changes, line):
  with pytest.raises(ValueError, match=line) as error:
    serve(tmp_path, restored=True, **changes)
  assert "\n" not in str(error.value)


def test_tables_are_added_but_not_left_out(tmp_path):
  save(tmp_path, 4)
  manager = serve(tmp_path, restored=True, others=[variables.make_table()])
  assert manager.status(tables.TRANSITIONS).size == 20
  publisher = variables.VariablesPublisher(manager.address)
  assert publisher.publish({"w": np.ones(2)}) == 1
  publisher.close()
  start_saver(manager, tmp_path / "both").finish()
  manager.close()
  (tmp_path / "saved").rename(tmp_path / "old")
  (tmp_path / "both").rename(tmp_path / "saved")
  with pytest.raises(ValueError, match="has the tables"):
    serve(tmp_path, restored=True)


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
  records, ones = served.numbers(0, 16), np.ones(16)
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
  while not saver.wait_copied(timeout_s=0.1):  # also ends after a failure
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
