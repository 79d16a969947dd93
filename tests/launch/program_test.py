"""Program: the whole of it, wired by Launchpad and stepped by hand."""

import csv
import math
import time

import launchpad as lp
import pytest
import reverb
from absl import flags
from absl.testing import absltest

from configs import limiter, prioritized_dqn
from environments import factory
from launch import program as program_lib
from launch import site
from launch.nodes import control_client
from launch.runs import run, run_folder
from replay import shared_variables, tables, variables

# Launchpad uses the alarm signal, by which tests are timed out otherwise.
pytestmark = pytest.mark.timeout(120, method="thread")

WORKERS, ENVIRONMENTS, BATCH_SIZE = 2, 4, 16
STEPPED = ("control", "worker", "trainer", "evaluator")  # not run


def make_config(proxy, replay):
  config = prioritized_dqn.get_config()
  config.network.hidden_sizes = (8,)
  config.replay.update(
    {"capacity": 1_000, "min_size": 100, "samples_per_insert": 4.0}
  )
  config.learner.update({"batch_size": BATCH_SIZE, "steps_per_call": 5})
  config.variables.publish_period = 5
  config.evaluation.episodes = 3
  config.topology.update(
    {
      "workers": WORKERS,
      "environments_per_worker": ENVIRONMENTS,
      "proxy": proxy,
      "replay": replay,
    }
  )
  return config


def poll(call, wanted=lambda value: True, timeout_s=60.0):
  """Calls until the value is wanted; what is not up yet raises."""
  deadline = time.monotonic() + timeout_s
  while True:
    try:
      value = call()
      if wanted(value):
        return value
    except Exception as error:
      value = error
    assert time.monotonic() < deadline, value
    time.sleep(0.02)


class Launched:
  """A program whose nodes wait for calls."""

  def __init__(self, config, folder, memory_dir):
    flags.FLAGS.mark_as_parsed()
    spec = factory.make_spec(config.environment)
    wiring = program_lib.make_program(
      run.Run(config, spec, folder, time.time()),
      site.Site.whole(config, memory_dir),
    )
    groups = wiring.program.groups
    for role in STEPPED:
      for node in groups[role]:
        node.disable_run()
    handles = {
      role: [node.create_handle() for node in nodes]
      for role, nodes in groups.items()
    }
    self._case = absltest.TestCase()
    lp.launch(wiring.program, launch_type="test_mt", test_case=self._case)
    self.workers = [handle.dereference() for handle in handles["worker"]]
    (control,) = (handle.dereference() for handle in handles["control"])
    self.control = control_client.ControlClient(control)
    (self.trainer,) = (handle.dereference() for handle in handles["trainer"])
    (evaluator,) = (handle.dereference() for handle in handles["evaluator"])
    self.evaluator = evaluator
    self.server_address = wiring.servers["replay"].resolve()
    self.server = reverb.Client(self.server_address)

  def close(self):
    self._case.doCleanups()

  def counts(self):
    """Items in the table, items inserted and samples drawn since the start."""
    info = self.server.server_info(timeout=5)[tables.TRANSITIONS]
    limiter = info.rate_limiter_info
    return (
      info.current_size,
      limiter.insert_stats.completed,
      limiter.sample_stats.completed,
    )

  def priorities(self, samples):
    drawn = self.server.sample(
      tables.TRANSITIONS, samples, emit_timesteps=False
    )
    return {item.info.key: item.info.priority for item in drawn}


TOPOLOGIES = [
  (True, "with_trainer"),
  (True, "own_process"),
  (False, "with_trainer"),
  (False, "own_process"),
]


@pytest.fixture(
  params=TOPOLOGIES, ids=lambda topology: "-".join(map(str, topology))
)
def launched(request, tmp_path):
  config = make_config(*request.param)
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(config)
  memory_dir = tmp_path / "memory"
  memory_dir.mkdir()
  launched = Launched(config, folder, str(memory_dir))
  launched.config, launched.folder = config, folder
  launched.variables_path = memory_dir / "variables"
  yield launched
  launched.close()


def collect(launched, env_steps):
  """Steps the workers in turn; returns the environment steps of each."""
  counts = [poll(worker.step, bool) for worker in launched.workers]
  assert counts == [ENVIRONMENTS] * WORKERS
  while sum(counts) < env_steps:
    for index, worker in enumerate(launched.workers):
      before, counts[index] = counts[index], worker.step()
      # All environments step; those that reset themselves don't count.
      assert before <= counts[index] <= before + ENVIRONMENTS
  return counts


def check_arrived(launched, env_steps):
  """Every step is in the table but the newest of each environment."""
  still_open = WORKERS * ENVIRONMENTS
  size, inserted, _ = poll(
    launched.counts, lambda counts: counts[1] >= env_steps - still_open
  )
  assert inserted <= env_steps
  assert size == inserted  # below the capacity: nothing was evicted


def test_a_run_step_by_step(launched):
  config = launched.config
  replay = config.replay
  env_steps = sum(collect(launched, 120))
  check_arrived(launched, env_steps)
  _, inserted, _ = launched.counts()

  before = launched.priorities(40)
  first_return = poll(launched.evaluator.step)
  assert first_return >= 8.0  # no policy drops the pole faster

  # The limiter lets the trainer take so many, and not one more.
  buffer = limiter.error_buffer(config)
  allowed = replay.samples_per_insert * (inserted - replay.min_size) + buffer
  steps, before_last = launched.trainer.step(), -1
  while steps > before_last:
    before_last, steps = steps, launched.trainer.step()
  _, _, sampled = launched.counts()
  assert steps > 0
  assert len(before) <= 40
  assert 40 + steps * BATCH_SIZE <= sampled <= allowed
  assert sampled > allowed - BATCH_SIZE

  # What it learned has come to those that act.
  published = 1 + steps // config.variables.publish_period
  if config.topology.proxy:
    shared = shared_variables.SharedVariables(str(launched.variables_path))
    snapshot = poll(shared.poll, lambda s: s and s.version == published)
    assert snapshot.version == published
    assert poll(proxy_bytes(launched), lambda sent: sent > 0)
  else:
    assert not launched.variables_path.exists()
  newest = poll(
    variables.ServerVariables(launched.server_address, period_s=0.0).poll,
    lambda s: s and s.version == published,
  )
  assert all(value.size for value in newest.variables.values())
  assert math.isfinite(poll(launched.evaluator.step))
  with open(launched.folder.curves_csv, newline="") as file:
    versions = [int(row["variables_version"]) for row in csv.DictReader(file)]
  assert versions[0] == 1
  assert 1 < versions[-1] <= published

  # More steps earn more samples: also to look at priorities once more.
  counts = [worker.step() for worker in launched.workers]
  while sum(counts) < env_steps + 40:
    counts = [worker.step() for worker in launched.workers]
  check_arrived(launched, sum(counts))
  after = launched.priorities(40)
  both = before.keys() & after.keys()
  assert both
  assert any(before[key] != after[key] for key in both)


def proxy_bytes(launched):
  return lambda: launched.control.status().proxy.bytes_up


def test_one_more_worker(tmp_path):
  config = make_config(proxy=True, replay="with_trainer")
  wiring = program_lib.make_program(
    run.Run(
      config,
      factory.make_spec(config.environment),
      run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False),
      time.time(),
    ),
    site.Site.whole(config, str(tmp_path)),
  )
  nodes = wiring.program.groups["worker"]
  more = wiring.make_worker(WORKERS, WORKERS + 1)
  assert len(wiring.program.groups["worker"]) == WORKERS
  configs, _, indices, data, controls = zip(
    *[node._args[:5] for node in [*nodes, more]], strict=True
  )
  workers = [config.topology.workers for config in configs]
  assert workers == [WORKERS] * WORKERS + [WORKERS + 1]
  assert indices == tuple(range(WORKERS + 1))
  assert len(set(data)) == 1
  assert set(controls) == {wiring.control}
