"""Tests of the trainer on in-process ports, which is stepped by hand."""

import numpy as np
import pytest

from slipway.agents.updates import local_updates
from slipway.launch.control import messages, waits
from slipway.replay.items import transitions
from tests.launch.nodes import local_run

PAUSE = messages.Command(paused=True)


def make_run(mode="async", steps_per_call=4, round_steps=800, **replay):
  config = local_run.make_config(mode, **replay)
  config.learner.steps_per_call = steps_per_call
  config.sync.environment_steps = round_steps
  return local_run.LocalRun(config, local_run.CountingLearner())


def make_queue_run():
  config = local_run.make_queue_config("sync")
  return local_run.LocalRun(config, local_run.CountingLearner())


def published(run):
  """Returns the number of updates that the newest variables have had."""
  return int(run.variables.newest.variables["steps"][0])


def write(run, count, version=1):
  """Writes transitions that have a version of the variables."""
  random = np.random.default_rng(run.table.inserted)
  records = run.schema.record.pack(
    {
      "o_tm1": random.normal(size=(count, 4)),
      "a_tm1": random.integers(2, size=count),
      "r_t": random.normal(size=count),
      "discount_t": np.full(count, 0.9),
      "o_t": random.normal(size=(count, 4)),
      transitions.VERSION: np.full(count, version),
    }
  )
  run.sink.write(records, np.ones(count))


def write_rollouts(run, count, version=1):
  """Writes rollouts to a queue; all fields except the version are 0."""
  fields = {
    name: np.zeros((count, *shape), dtype)
    for name, (dtype, shape) in run.schema.record.fields.items()
  }
  fields[transitions.VERSION] += version
  run.sink.write(run.schema.record.pack(fields), np.ones(count))


def test_the_first_variables_are_published_at_once():
  run = make_run()
  trainer = run.make_trainer()
  assert trainer.version == run.variables.newest.version == 1
  assert trainer.steps == 0
  assert published(run) == 0
  trainer.close()


def test_variables_that_are_published_already_are_not_published_again():
  run = make_run()
  run.publish()
  run.publish()
  trainer = run.make_trainer(version=2)
  assert trainer.version == run.variables.newest.version == 2
  trainer.close()


@pytest.mark.parametrize(
  ("path", "reason"), [("", waits.TRANSITIONS), ("d", waits.RECORDED)]
)
def test_without_a_batch_it_waits(path, reason):
  run = make_run()
  run.config.dataset.path = path
  trainer = run.make_trainer()
  assert trainer.step() == 0
  report = trainer.report()
  assert report.wait.reason == reason
  assert report.wait.waited_s >= 0.0
  assert report.first_step_at_s is None
  assert report.metrics == {}
  # 20 items are the minimum; two more grant one update of 16 samples.
  write(run, 22)
  assert trainer.step() == 1
  report = trainer.report()
  assert report.wait is None
  assert report.first_step_at_s is not None
  assert report.metrics["steps"] == 1.0
  trainer.close()


# updates per call, trainer steps after each call if there is enough data
CALLS = [(1, [1, 2, 3, 4]), (4, [4, 8, 12, 16])]


@pytest.mark.parametrize(("steps_per_call", "steps"), CALLS)
def test_updates_of_a_call(steps_per_call, steps):
  run = make_run(steps_per_call=steps_per_call)
  trainer = run.make_trainer()
  write(run, 200)
  assert [trainer.step() for _ in steps] == steps
  assert trainer.steps == int(run.learner.steps) == steps[-1]
  trainer.close()


def test_variables_are_published_each_period():
  run = make_run(steps_per_call=1)  # variables.publish_period is 3
  trainer = run.make_trainer()
  write(run, 200)
  versions = []
  for _ in range(8):
    trainer.step()
    versions.append(run.variables.newest.version)
    assert trainer.version == trainer.report().variables_version == versions[-1]
  assert versions == [1, 1, 2, 2, 2, 3, 3, 3]
  assert published(run) == 6
  trainer.close()


def test_a_pause_is_not_reported_as_a_wait():
  run = make_run()
  trainer = run.make_trainer()
  write(run, 200)
  assert [trainer.step(PAUSE) for _ in range(3)] == [0, 0, 0]
  assert trainer.report().wait is None
  assert trainer.step() == 4
  trainer.close()


def test_a_limit_is_exact_and_may_change():
  run = make_run()
  run.config.limits.trainer_steps = 6
  trainer = run.make_trainer()
  write(run, 400)
  assert [trainer.step() for _ in range(4)] == [4, 6, 6, 6]
  higher = messages.Command(trainer_steps_limit=9)
  assert [trainer.step(higher) for _ in range(2)] == [9, 9]
  assert trainer.step() == 9, "the limit stays until another command"
  assert trainer.step(messages.Command(trainer_steps_limit=0)) == 13
  trainer.close()


def test_a_call_without_a_batch_leaves_the_metrics():
  run = make_run()
  trainer = run.make_trainer()
  write(run, 22)
  trainer.step()
  metrics = trainer.report().metrics
  trainer.step()
  assert trainer.report().metrics == metrics
  assert trainer.report().wait is not None
  trainer.close()


def test_a_round_has_its_updates_and_one_publication():
  # The first 20 items grant no samples. The other 20 grant 8 samples each,
  # which are 10 batches of 16.
  run = make_run("sync", round_steps=20)
  trainer = run.make_trainer()
  assert trainer.waits_for_round
  write(run, 40)
  assert trainer.step() == 0, "no worker has collected the round"
  collected = messages.Command(collected_version=1)
  steps = [trainer.step(collected) for _ in range(5)]
  assert steps == [4, 8, 10, 10, 10]
  assert (trainer.version, published(run)) == (2, 10)
  assert trainer.waits_for_round
  write(run, 20)
  assert trainer.step(messages.Command(collected_version=2)) == 14
  assert not trainer.waits_for_round
  assert trainer.version == 2
  trainer.close()


# items that the workers write in each round (config: 20 steps per round)
ROUNDS = [[20] * 9, [24] * 8, [32] * 6, [1] * 40, [100, 20, 1, 1, 70]]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_the_ratio_holds_whatever_a_round_collects(rounds):
  run = make_run("sync", round_steps=20)
  trainer = run.make_trainer()
  for written in rounds:
    write(run, written)
    version = trainer.version
    collected = messages.Command(collected_version=version)
    while trainer.version == version:  # makes the round's updates
      trainer.step(collected)
    granted = 8 * max(0, run.table.inserted - 20)
    assert granted - 16 < run.table.sampled <= granted
  assert trainer.steps * 16 == run.table.sampled
  trainer.close()


def test_a_restarted_trainer_continues_by_the_tables_counts():
  run = make_run("sync", round_steps=20)
  trainer = run.make_trainer()
  write(run, 40)
  assert trainer.step(messages.Command(collected_version=1)) == 4
  trainer.close()
  again = run.make_trainer()
  write(run, 20)
  collected = messages.Command(collected_version=again.version)
  while run.variables.newest.version == again.version == 2:
    again.step(collected)
  assert (again.steps, run.table.sampled) == (20, 320)
  again.close()


def test_a_round_with_too_little_data_is_collected_once_more():
  run = make_run("sync")
  trainer = run.make_trainer()
  write(run, 19)
  assert trainer.step(messages.Command(collected_version=1)) == 0
  assert trainer.version == 2, "published, so that the workers continue"
  assert trainer.waits_for_round
  assert trainer.step(messages.Command(collected_version=1)) == 0
  assert trainer.version == 2
  trainer.close()


def test_a_round_of_a_queue_takes_whole_batches():
  run = make_queue_run()
  trainer = run.make_trainer()
  write_rollouts(run, 3)
  assert trainer.step(messages.Command(collected_version=1)) == 0
  assert trainer.version == 2
  write_rollouts(run, 6)  # 9 in the queue: 2 batches of 4
  collected = messages.Command(collected_version=2)
  assert [trainer.step(collected) for _ in range(3)] == [1, 2, 2]
  assert trainer.version == 3
  assert run.table.size == 1
  trainer.close()


def test_a_round_ends_when_its_batches_are_lost():
  run = make_queue_run()
  trainer = run.make_trainer()
  write_rollouts(run, 12)
  collected = messages.Command(collected_version=1)
  assert trainer.step(collected) == 1
  run.table.sample(8)  # as if a restarted server had lost these rollouts
  assert [trainer.step(collected) for _ in range(3)] == [1, 1, 1]
  assert trainer.waits_for_round
  assert (trainer.version, published(run)) == (2, 1)
  write_rollouts(run, 4)
  assert trainer.step(messages.Command(collected_version=2)) == 2
  trainer.close()


def test_a_round_ends_when_its_server_is_lost_within_a_call(monkeypatch):
  run = make_run("sync", round_steps=20)
  trainer = run.make_trainer()
  write(run, 40)
  collected = messages.Command(collected_version=1)
  assert trainer.step(collected) == 4
  make_updates = local_updates.LocalUpdates.run

  def lose_server(updates, count):
    make_updates(updates, count - 1)
    run.table.inserted = 20  # as counted by the restarted server

  with monkeypatch.context() as patched:
    patched.setattr(local_updates.LocalUpdates, "run", lose_server)
    assert trainer.step(collected) == 7
  assert [trainer.step(collected) for _ in range(2)] == [7, 7]
  assert trainer.waits_for_round
  assert (trainer.version, published(run)) == (2, 7)
  trainer.close()


def test_a_worker_and_a_trainer_alternate():
  run = local_run.LocalRun(local_run.make_queue_config("sync"))
  worker, trainer = run.make_worker(), run.make_trainer()
  while trainer.steps < 3:
    collected = messages.Command(collected_version=worker.collected_version)
    trainer.step(collected)
    worker.step()
  # On-policy: each batch was collected with the variables that it updates.
  assert trainer.report().metrics["policy_age_versions_max"] == 0.0
  worker.close()
  trainer.close()
