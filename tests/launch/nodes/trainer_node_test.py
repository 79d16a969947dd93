"""Tests of the trainer node with its own Reverb server and given items."""

import time

import numpy as np
import pytest
import reverb
import tensorflow as tf

from slipway.agents import registry
from slipway.agents.dqn import builder as builder_lib
from slipway.configs import prioritized_dqn
from slipway.environments import factory
from slipway.launch.control import rates as rates_lib
from slipway.launch.control import run_control
from slipway.launch.nodes import addresses, trainer_node
from slipway.launch.runs import run_folder
from slipway.replay.items import transitions
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import dataset, tables
from slipway.replay.transport import routes

BATCH, ROUND = 16, 40  # transitions


@pytest.fixture(params=[5, 20], ids=["short calls", "long calls"])
def config(request):
  config = prioritized_dqn.get_config()
  config.network.hidden_sizes = (8,)
  config.replay.update(
    {"capacity": 200, "min_size": ROUND, "samples_per_insert": 0.0}
  )
  config.learner.update({"batch_size": BATCH, "steps_per_call": request.param})
  config.variables.publish_period = 10
  return config


@pytest.fixture
def start(config, tmp_path):
  """Yields a function that starts a trainer that hosts a table."""
  started = []

  def start():
    started.append(make_node(config, tmp_path))
    return started[-1]

  yield start
  for node in started:
    node.trainer.close()
    node.close()


@pytest.fixture
def node(start):
  return start()


@pytest.fixture
def batch_rewards(monkeypatch):
  """Returns a variable with the rewards of the last batch.

  It follows the learners that are made after this call.
  """
  batch_rewards = tf.Variable(tf.zeros([BATCH]))
  make_learner = builder_lib.Builder.make_learner

  def make_storing_learner(*args):
    learner = make_learner(*args)
    update = learner.update

    def update_and_store(batch):
      batch_rewards.assign(batch.data.r_t)
      return update(batch)

    learner.update = update_and_store
    return learner

  monkeypatch.setattr(builder_lib.Builder, "make_learner", make_storing_learner)
  return batch_rewards


def make_node(config, tmp_path):
  port = addresses.reserve_port()
  address = f"localhost:{port.getsockname()[1]}"
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  spec = factory.make_spec(config.environment)
  rates = rates_lib.Rates.from_config(config, spec)
  control = run_control.RunControl(
    config, folder, {"worker": 1}, time.time(), rates
  )
  node = trainer_node.TrainerNode(
    config, spec, folder, [address], None, address, None, control
  )
  node.address, node.port = address, port  # reserved as long as it lives
  return node


def write(node, config, numbers, versions):
  """Writes transitions whose rewards identify them."""
  spec = factory.make_spec(config.environment)
  schema = registry.make_builder(config.agent).make_table(config, spec).schema
  count = len(numbers)
  observations = np.random.default_rng(0).normal(size=(2, count, 4))
  records = schema.record.pack(
    {
      "o_tm1": observations[0],
      "a_tm1": np.zeros(count),
      "r_t": numbers,
      "discount_t": np.zeros(count),
      "o_t": observations[1],
      transitions.VERSION: versions,
    }
  )
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(node.address), tables.TRANSITIONS
  )
  assert writer.wait(timeout_s=30)
  writer.write(records, np.ones(count))
  assert writer.close(timeout_s=30)


def test_the_age_is_that_of_the_last_batch(batch_rewards, node, config):
  version_of = np.zeros(0, int)
  random, published = np.random.default_rng(0), 1
  means = set()
  for _ in range(8):
    # Workers are some versions behind, never ahead.
    made_by = random.integers(
      max(1, published - 5), published, ROUND, int, True
    )
    numbers = np.arange(len(version_of), len(version_of) + ROUND)
    version_of = np.append(version_of, made_by)
    write(node, config, numbers, made_by)
    steps = node.trainer.step()

    ages = published - version_of[batch_rewards.numpy().astype(int)]
    report = node.report()
    found = report.metrics
    assert found["policy_age_versions_mean"] == pytest.approx(ages.mean())
    assert found["policy_age_versions_max"] == ages.max()
    assert {"loss", "td_error_abs_mean"} < set(found)
    means.add(ages.mean())

    # Variables are published at most once per call.
    period = config.variables.publish_period
    published += (steps % period) < config.learner.steps_per_call
    assert report.variables_version == published
  assert len(means) > 3


def test_a_starved_call_leaves_the_age_as_it_was(node, config):
  assert node.trainer.step() == 0
  assert node.report().metrics == {}
  write(node, config, np.arange(ROUND), np.ones(ROUND, int))
  node.trainer.step()
  found = node.report().metrics
  assert found["policy_age_versions_mean"] == 0.0
  assert found["policy_age_versions_max"] == 0.0


@pytest.mark.parametrize("config", [20], indirect=True)
def test_batches_that_arrive_slower_than_the_datasets_timeout(start, config):
  # Eight transitions grant eight samples, which are half a batch. A dataset
  # that times out drops its incomplete batch. The next whole batch must still
  # arrive.
  config.replay.update({"samples_per_insert": 1.0, "tolerance": 0.5})
  node = start()
  write(node, config, np.arange(ROUND), np.ones(ROUND, int))
  written, deadline_s = ROUND, time.monotonic() + 60.0
  while node.trainer.step() < 4:
    assert time.monotonic() < deadline_s
    write(node, config, np.arange(8), np.ones(8, int))
    written += 8
    time.sleep(1.2 * dataset.STARVED_MS / 1_000)
  sampled = node.report().replay.sampled
  assert sampled >= 4 * BATCH
  # Less than one batch is dropped per batch that the learner received.
  assert written < ROUND + 2 * 4 * BATCH + 2 * BATCH


@pytest.mark.parametrize("config", [5], indirect=True)
def test_a_node_reports_while_a_snapshot_locks_its_table(
  node, config, monkeypatch
):
  write(node, config, np.arange(ROUND), np.ones(ROUND, int))
  before = node.report().replay
  assert before.inserted == ROUND
  write(node, config, np.arange(1), np.ones(1, int))

  def time_out(client, timeout):
    raise reverb.errors.DeadlineExceededError(f"no reply within {timeout} s")

  with monkeypatch.context() as locked:
    locked.setattr(reverb.Client, "server_info", time_out)
    assert node.report().replay == before
  assert node.report().replay.inserted == ROUND + 1
