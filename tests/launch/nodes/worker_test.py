"""Tests of the worker on in-process ports, which is stepped by hand."""

import contextlib
import threading
import time

import numpy as np
import pytest

from slipway.environments import external, factory, vector
from slipway.launch.control import messages
from slipway.launch.nodes import local_ports
from slipway.replay.items import transitions
from tests import polling
from tests.launch.nodes import local_run

RUN = messages.Command()
PAUSE = messages.Command(paused=True)


def make_run(mode="async", **fields):
  config = local_run.make_config(mode)
  for field, value in fields.items():
    section, name = field.split("__")
    config[section][name] = value
  return local_run.LocalRun(config)


def steps_of(worker, calls, command=RUN):
  """Steps a worker; returns the environment steps of each call."""
  before, made = worker.env_steps, []
  for _ in range(calls):
    after = worker.step(command)
    made.append(after - before)
    before = after
  return made


def versions_in(run):
  """Returns the version of each item in the table, oldest first."""
  keys, _, _, records = run.table.sample(4_000)
  _, first = np.unique(keys, return_index=True)
  return run.schema.record.unpack(records[first])[transitions.VERSION].tolist()


def test_without_variables_nothing_is_collected():
  run = make_run()
  worker = run.make_worker()
  assert steps_of(worker, 3) == [0, 0, 0]
  report = worker.report()
  assert (report.counts.env_steps, report.variables_version) == (0, 0)
  assert report.variables_age_s is None
  run.publish()
  assert steps_of(worker, 1) == [4]
  worker.close()


def test_items_are_written_and_counted():
  run = make_run()
  run.publish()
  worker = run.make_worker()
  made = steps_of(worker, 60)
  assert all(0 <= steps <= 4 for steps in made)
  report = worker.report()
  assert report.counts.env_steps == worker.env_steps == sum(made) > 200
  # The newest transition of each environment is not complete.
  assert (
    report.counts.env_steps - 4 <= run.table.inserted <= report.counts.env_steps
  )
  assert (
    report.counts.items_written
    == report.counts.items_confirmed
    == run.table.inserted
  )
  assert (report.counts.items_lost, report.counts.reconnects) == (0, 0)
  assert report.training_return > 0.0
  assert report.wait is None
  worker.close()


def test_items_have_the_version_that_acted():
  run = make_run()
  run.publish()
  worker = run.make_worker()
  steps_of(worker, 5)
  run.publish()
  run.publish()  # the worker skips version 2
  steps_of(worker, 5)
  report = worker.report()
  assert (report.variables_version, report.counts.variable_loads) == (3, 2)
  assert 0.0 <= report.variables_age_s < 60.0
  versions = versions_in(run)
  assert set(versions) == {1, 3}
  assert versions == sorted(versions)
  worker.close()


def test_a_pause_stops_a_worker_between_two_steps():
  run = make_run()
  run.publish()
  worker = run.make_worker()
  steps_of(worker, 5)
  assert steps_of(worker, 3, PAUSE) == [0, 0, 0]
  assert worker.report().wait is None
  assert steps_of(worker, 1) != [0]
  worker.close()


def test_a_rate_limit():
  run = make_run()
  run.publish()
  worker = run.make_worker()
  command = messages.Command(steps_per_s=400.0)
  began_s = time.monotonic()
  while worker.env_steps < 60:
    worker.step(command)
  passed_s = time.monotonic() - began_s
  # A burst has at most 0.1 s of steps, plus one step of all environments.
  assert worker.env_steps <= 400.0 * (passed_s + 0.1) + 4
  assert worker.env_steps > 0
  worker.close()


class ClosedSink(local_ports.LocalSink):
  """A sink that accepts items only while `is_open` is True."""

  waits_for = "the test"
  is_open = False

  def wait(self, timeout_s):
    return self.is_open

  def flush(self, timeout_s):
    return self.is_open


@pytest.mark.parametrize("ended", [False, True])
def test_an_episode_that_ended_before_a_stop_is_written(ended):
  run = make_run(topology__environments_per_worker=1)
  run.publish()
  environment, exchange = factory.make_external(run.config.environment)
  worker = run.make_worker(environment)

  def loop():
    for step in range(3):
      exchange.act(np.full(4, step, np.float32))
      last = ended and step == 2
      exchange.observe(1.0, last, False, np.full(4, step + 1, np.float32))
    if not ended:
      with contextlib.suppress(external.Interrupted):
        exchange.act(np.full(4, 3, np.float32))

  thread = threading.Thread(target=loop, daemon=True)
  thread.start()
  assert steps_of(worker, 3) == [1, 1, 1]
  assert run.table.inserted == 2
  exchange.set_should_stop(lambda: True)
  worker.finish_episodes()
  assert run.table.inserted == (3 if ended else 2)
  assert worker.env_steps == 3
  exchange.close()
  worker.close()


def test_a_worker_waits_for_a_blocked_sink():
  run = make_run()
  run.sink = ClosedSink(run.table)
  run.publish()
  worker = run.make_worker()
  assert steps_of(worker, 3) == [0, 0, 0]
  report = worker.report()
  assert report.wait.reason == "the test"
  assert report.wait.waited_s > 0.0
  run.sink.is_open = True
  assert steps_of(worker, 1) == [4]
  assert worker.report().wait is None
  worker.close()


def test_a_step_that_hangs_is_a_wait(monkeypatch):
  run = make_run()
  run.publish()
  worker = run.make_worker()
  steps_of(worker, 5)
  returns = threading.Event()
  step = vector.VectorEnvironment.step

  def hang(environment, actions):
    returns.wait()
    return step(environment, actions)

  monkeypatch.setattr(vector.VectorEnvironment, "step", hang)
  thread = threading.Thread(target=steps_of, args=(worker, 1))
  thread.start()
  polling.wait_until(lambda: worker.report().wait)
  assert worker.report().wait.reason == "step() of CartPole-v1 to return"
  returns.set()
  thread.join()
  assert worker.report().wait is None
  worker.close()


def test_a_round_is_collected_with_one_version():
  run = make_run("sync", sync__environment_steps=40)
  worker = run.make_worker()
  for version in (1, 2, 3):
    assert run.publish() == version
    made = steps_of(worker, 10)
    assert worker.collected_version == version - 1
    assert steps_of(worker, 3) == [0, 0, 0]
    assert worker.collected_version == version
    assert worker.report().collected_version == version
    assert sum(made) > 20
  assert set(versions_in(run)) == {1, 2, 3}
  worker.close()


def test_a_share_of_a_round_follows_the_number_of_workers():
  run = make_run("sync", sync__environment_steps=40)
  worker = run.make_worker()
  run.publish()
  two = messages.Command(workers=2)
  steps_of(worker, 5, two)
  assert steps_of(worker, 2, two) == [0, 0]
  assert worker.collected_version == 1
  # With the config's number of workers again, the share is larger.
  assert sum(steps_of(worker, 5)) > 0
  assert steps_of(worker, 1) == [0]
  worker.close()


def test_a_round_is_complete_when_all_items_are_confirmed():
  run = make_run("sync", sync__environment_steps=8)
  run.sink = ClosedSink(run.table)
  run.sink.is_open = True
  run.publish()
  worker = run.make_worker()
  steps_of(worker, 2)
  run.sink.is_open = False
  steps_of(worker, 3)
  assert worker.collected_version == 0
  assert worker.report().wait.reason == "the test"
  run.sink.is_open = True
  steps_of(worker, 1)
  assert worker.collected_version == 1
  worker.close()


def test_a_round_of_a_queue_is_a_batch():
  run = local_run.LocalRun(local_run.make_queue_config("sync"))
  worker = run.make_worker()
  for version in (1, 2):
    run.publish()
    while worker.collected_version < version:
      worker.step()
    assert run.table.inserted == 4 * version
  worker.close()


def test_a_version_within_a_round_shifts_no_rollout():
  # A trainer that was restarted publishes before the round is complete.
  run = local_run.LocalRun(local_run.make_queue_config("sync"))
  worker = run.make_worker()
  run.publish()
  steps_of(worker, 5)
  assert run.table.inserted == 0
  for version, steps in ((2, 3), (3, 8)):
    run.publish()
    steps_of(worker, steps)
    assert run.table.inserted == 4 * (version - 1)
    assert steps_of(worker, 2) == [0, 0]
    assert worker.collected_version == version
  worker.close()
