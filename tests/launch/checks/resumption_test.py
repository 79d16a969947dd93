"""Tests of resumption: the changes that it accepts, and one-line errors."""

import json
import pathlib
import subprocess
import sys
import typing

import pytest

from slipway.agents import registry
from slipway.environments import factory
from slipway.launch.checks import resumption, train_flags
from slipway.launch.runs import (
  config_file,
  run_counters,
  run_folder,
  run_status,
  snapshot_store,
)
from slipway.replay.tables import table_status
from tests.launch import errors, saved

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse(*arguments):
  given = ("--config=", "--resume")
  has_config = any(x.startswith(given) for x in arguments)
  flags = [] if has_config else ["--config=apex_dqn:cartpole"]
  return train_flags.parse(["train", *flags, *arguments], "Trains.").config


@pytest.fixture
def make_run(tmp_path):
  """Returns a function that makes the folder of an ended run with snapshots."""

  def make(*arguments, config=None, snapshots_taken=1, **counters):
    folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=True)
    config = config or parse(*arguments)
    folder.write_config(config)
    store = snapshot_store.SnapshotStore(
      folder, 9, files={run_folder.CONFIG: config_file.to_json(config)}
    )
    for _ in range(snapshots_taken):
      with store.writing() as path:
        saved.make_counters(mode=config.mode, **counters).write(path)
    return folder

  return make


def make_replay(sizes):
  """Returns the status of shards with given sizes, by index."""
  shards = {i: table_status.TableStatus(size) for i, size in sizes.items()}
  return run_status.ReplayStatus(3_000, shards=shards)


def resume(folder, *arguments):
  return resume_with(folder, parse(f"--resume={folder.path}", *arguments))


def resume_with(folder, config):
  spec = factory.make_spec(config.environment)
  table = registry.make_builder(config.agent).make_table(config, spec)
  return check(folder, config, table)


def check(folder, config, table):
  store = snapshot_store.open_store(config, folder)
  found = resumption.check(folder, config, table, store)
  return Found(*found, lambda: resumption.begin(folder, config, store))


class Found(typing.NamedTuple):
  snapshot: snapshot_store.Snapshot
  counters: run_counters.RunCounters
  begin: typing.Callable[[], None]


def check_rejected(folder, arguments, words):
  before = contents(folder)
  with errors.one_line(*words):
    resume(folder, *arguments)
  assert contents(folder) == before


def contents(folder):
  """Returns the content of all files in a run's folder, by path."""
  return {
    path: path.read_bytes() if path.is_file() else None
    for path in folder.path.rglob("*")
  }


def test_a_run_resumes_from_its_newest_snapshot(make_run):
  folder = make_run(snapshots_taken=3)
  folder.summary.write_text("{}")
  found = resume(folder, "--config.limits.trainer_steps=9_000")
  assert folder.summary.exists()
  assert found.snapshot.number == 3
  assert found.counters == saved.COUNTERS
  found.begin()
  assert not folder.summary.exists()
  assert folder.read_config().limits.trainer_steps == 9_000
  found.begin()  # also without a summary, as after a kill


def test_a_resume_whose_config_can_not_be_published(make_run, tmp_path):
  given = f"--config.snapshot.url=file://{tmp_path / 'shared'}"
  folder = make_run(given)
  folder.summary.write_text("{}")
  # A folder where the config belongs: no file can be written there.
  (tmp_path / "shared" / folder.name / "config.json" / "x").mkdir(parents=True)
  with pytest.raises(OSError, match=r"config\.json"):
    resume(folder).begin()
  assert folder.summary.exists()


def test_a_damaged_snapshot_is_skipped(make_run):
  folder = make_run(snapshots_taken=2)
  newest = snapshot_store.SnapshotStore(folder).newest()
  assert newest is not None
  (newest.path / run_counters.FILE).write_text("{}")
  assert resume(folder).snapshot.number == 1


# overrides with which a run can resume from its saved state
ACCEPTED = """
seed=7 exploration.decay_steps=7 learner.batch_size=32
learner.learning_rate=1e-5 learner.target_update_period=7
replay.capacity=12_000 replay.capacity=1_000_000 replay.sampler=uniform
replay.priority_exponent=0.7 replay.min_size=500 replay.samples_per_insert=4
replay.tolerance=1.0 variables.publish_period=7
topology.workers=7 topology.environments_per_worker=3 topology.proxy=False
topology.replay=own_process evaluation.episodes=3 snapshot.period_s=7
snapshot.keep=7 watchdog.period_s=7 rates.environment_steps_per_s=7
restarts.budget=7 limits.environment_steps=12_346 limits.trainer_steps=1_501
limits.wall_clock_s=61.6 limits.target_return=210.3
adder.n_step=15 network.hidden_sizes=64,64
"""  # the last two are no changes


def test_overrides_that_a_resume_accepts(make_run):
  folder = make_run()
  for field in ACCEPTED.split():
    assert resume(folder, f"--config.{field}").snapshot.number == 1
  steps = "--config.sync.environment_steps=80"
  assert resume(folder, "--mode=sync", steps).snapshot.number == 1


# flags of the run, overrides of the resume, parts of the error
REJECTED = [
  ("", "--mode=single", "--mode=single can't resume from a snapshot of mode"),
  ("", "--config.environment.name=Acrobot-v1", "it was 'CartPole-v1'"),
  ("", "--config.environment.kwargs.sutton_barto_reward=True",
   "sutton_barto_reward=True can't change"),
  ("", "--config.evaluation.environment.kwargs.sutton_barto_reward=True",
   "the best evaluation so far had another one"),
  ("", "--config.network.hidden_sizes=64", "it was (64, 64)"),
  ("", "--config.network.dueling=True", "the saved variables would not fit"),
  ("", "--config.adder.n_step=1", "it was 15"),
  ("", "--config.adder.discount=0.9", "adder.discount=0.9 can't change"),
  ("", "--config.replay.transitions_per_item=8", "it was 4"),
  ("", "--config.replay.shards=2 --config.topology.replay=own_process",
   "replay.shards=2 can't change"),
  ("", "--config.replay.capacity=11_999",
   "--config.replay.capacity=11999 is below the 12000 transitions"),
  # It has 3,000 sequences of 10 steps.
  ("--config=r2d2", "--config.replay.capacity=29_999", "30000 transitions"),
  ("", "--config.limits.environment_steps=12_345",
   "has 12,345 environment steps, so it would end at once; raise it with "
   "--config.limits.environment_steps="),
  ("", "--config.limits.trainer_steps=1_000",
   "raise it with --config.limits.trainer_steps=... (0: no limit)"),
  ("", "--config.limits.wall_clock_s=61.5", "has 61.5 s"),
  ("", "--config.limits.target_return=210", "210.25"),
  ("", "--config.limits.target_return=210", "inf: no limit"),
  ("--config.limits.trainer_steps=1_500", "",
   "config.limits.trainer_steps=1500 is reached"),
  ("--config=ddpg", "--config.learner.policy_loss=soft",
   "it was 'deterministic'"),
  *((f"--config={x}", "--config.learner.temperature=7.0", "the adapted value")
    for x in ("sac", "mpo", "vmpo")),
  *((f"--config={x}", f"--config.learner.{y}kl_multiplier=7.0", "the adapted")
    for x, y in (("mpo", ""), ("mpo", "std_"), ("vmpo", ""))),
  ("", "--config.learner.optimizer=sgd", "the saved moments"),
  ("", "--config.dataset.path=d --config.topology.workers=0 "
   "--config.replay.sampler=uniform", "the saved transitions would be lost"),
  ("--config.bonus.kind=rnd --config.adder.n_step=1",
   "--config.learner.batch_size=32", "a sum for each row of a batch"),
  *(("--mode=single", *row) for row in (
    ("--mode=async", "--mode=async can't resume"),
    ("--config.seed=2", "it was 1"),
    ("--config.replay.sampler=uniform", "it was 'prioritized'"),
    ("--config.replay.priority_exponent=0.7", "it was 0.6"),
    ("--config.topology.environments_per_worker=3", "it was 32"),
    ("--config.network.hidden_sizes=8", "it was (64, 64)"),
  )),
]  # fmt: skip


@pytest.mark.parametrize(("run", "arguments", "part"), REJECTED)
def test_overrides_that_a_resume_rejects(make_run, run, arguments, part):
  check_rejected(make_run(*run.split()), arguments.split(), [part])


@pytest.mark.parametrize(
  ("run", "argument"),
  [
    ("--config=r2d2", "--config.replay.capacity=30_000"),
    ("--config.limits.trainer_steps=1_500", "--config.limits.trainer_steps=0"),
    ("--mode=single", "--config.learner.learning_rate=1e-4"),
    ("--mode=single", "--config.topology.workers=7"),
    ("--mode=single", "--config.evaluation.episodes=3"),
  ],
)
def test_overrides_of_other_runs_that_a_resume_accepts(make_run, run, argument):
  assert resume(make_run(run), argument).snapshot.number == 1


SHARDS = [
  "--config.replay.shards=2",
  "--config.topology.replay=own_process",
  "--config.topology.workers=3",
]


# items of each shard, if known; the lowest capacity that resumes; part of the
# error below it. Worker 0 and 2 write to shard 0; each item has 4 transitions.
@pytest.mark.parametrize(
  ("sizes", "lowest", "part"),
  [
    (
      {0: 2_000, 1: 1_000},
      16_000,
      "is below the 8000 transitions of one shard",
    ),
    ({0: 2_000, 1: 1_000}, 16_000, "7996 for each of 2 shards"),
    ({}, 12_000, "give 12000 or more"),
  ],
)
def test_a_capacity_below_the_items_of_a_shard(make_run, sizes, lowest, part):
  folder = make_run(*SHARDS, replay=make_replay(sizes))
  capacity = "--config.replay.capacity="
  assert resume(folder, f"{capacity}{lowest}").snapshot.number == 1
  check_rejected(folder, [f"{capacity}{lowest - 8}"], [part])


def test_a_run_with_nan_in_arguments_resumes(make_run):
  config = parse()
  kwargs = {"levels": [float("nan")], "empty": float("nan")}
  config.evaluation.environment.kwargs = kwargs
  folder = make_run(config=config)
  assert resume(folder).snapshot.number == 1
  changed = folder.read_config()
  changed.evaluation.environment.kwargs.levels = [1.0]
  with pytest.raises(ValueError, match=r"levels=\[1.0\] can't change"):
    resume_with(folder, changed)


def test_the_agent_can_not_change(make_run):
  folder = make_run()
  config = folder.read_config()
  config.agent = "r2d2"
  with pytest.raises(ValueError, match="agent='r2d2' can't change"):
    check(folder, config, table=None)


def test_a_limit_that_the_newest_snapshot_has_reached(make_run):
  below = make_run("--config.limits.trainer_steps=1_501")
  assert not resumption.has_reached_limit(below)
  reached = make_run("--config.limits.trainer_steps=1_500")
  assert resumption.has_reached_limit(reached)
  # The limit of environment steps is not reached.
  both = make_run(
    "--config.limits.trainer_steps=1_500",
    "--config.limits.environment_steps=20_000",
    "--config.limits.combine=all",
  )
  assert not resumption.has_reached_limit(both)
  assert not resumption.has_reached_limit(make_run(snapshots_taken=0))


def test_a_run_that_was_not_evaluated_has_reached_no_return(make_run):
  folder = make_run(eval_returns=[], evaluation=run_status.EvaluationStatus())
  assert resume(folder, "--config.limits.target_return=-1").snapshot.number == 1


def test_a_target_of_infos_that_was_reached(make_run):
  folder = make_run(
    "--config.limits.target_info=success:0.9",
    eval_infos=[{"success": 0.95}] * 3,
  )
  assert resumption.has_reached_limit(folder)
  check_rejected(folder, [], [
    "target_info='success:0.9' is reached: the run has a mean of 0.95",
    "('': no limit)",
  ])  # fmt: skip
  for value in ("success:0.96", "other:0.9", ""):
    found = resume(folder, f"--config.limits.target_info={value}")
    assert found.snapshot.number == 1


def test_no_whole_snapshot(make_run):
  check_rejected(
    make_run(snapshots_taken=0), [], ["no complete snapshot", "start a new run"]
  )
  folder = make_run(snapshots_taken=2)
  for path in folder.snapshots.glob("*/manifest.json"):
    path.write_text("")
  check_rejected(folder, [], ["no complete snapshot", "start a new run"])


def test_a_newer_snapshot_of_the_store_is_downloaded(make_run, tmp_path):
  url = f"file://{tmp_path / 'shared'}"
  given = f"--config.snapshot.url={url}"
  folder = make_run(given)
  lost = tmp_path / "lost" / "a-run"
  lost.parent.mkdir()
  folder.path.rename(lost)
  store = snapshot_store.open_store(parse(given), run_folder.RunFolder(lost))
  folder = make_run(given, snapshots_taken=0)
  check_rejected(folder, [], ["no complete snapshot", url, "start a new run"])
  store.newest()
  store.upload_last()
  store.flush(lambda: 30.0)
  assert resume(folder).snapshot.number == 1
  with store.writing() as path:
    saved.make_counters(trainer_steps=2_000).write(path)
  store.flush(lambda: 30.0)
  assert resume(folder, "--config.snapshot.url=").snapshot.number == 1
  assert resume(folder).counters.status.trainer_steps == 2_000
  assert snapshot_store.SnapshotStore(folder).newest().number == 2


def test_a_snapshot_without_counters(make_run):
  folder = make_run()
  with snapshot_store.SnapshotStore(folder, keep=9).writing() as path:
    (path / "other").write_text("")
  check_rejected(folder, [], [run_counters.FILE, "another snapshot"])


def damage(folder, **values):
  """Changes fields of config.json.

  Args:
    folder: the run's folder.
    **values: values by field name, with __ in place of dots; None removes the
      field.
  """
  tree = json.loads(folder.config.read_text())
  for name, value in values.items():
    *sections, last = name.split("__")
    inner = tree
    for section in sections:
      inner = inner[section]
    if value is None:
      del inner[last]
    else:
      inner[last] = value
  folder.config.write_text(json.dumps(tree))


# changed fields of config.json, words that the error must contain
DAMAGED = [
  ({"agent": None}, "config.agent"),
  ({"network__core_size": 7}, "config.network.core_size is no field"),
  ({"replay__capacity": "many"}, "replay.capacity='many' must be of type int"),
  ({"replay__capacity": [1]}, "replay.capacity=(1,) must be of type int"),
  ({"replay__capacity": 10**500}, "replay.capacity=1000"),
  ({"replay": 3}, "config.replay is no field"),
  ({"agent": "dqnn"}, "config.agent='dqnn'"),
  ({"agent": 7}, "config.agent=7 must be of type str"),
  ({"environment__kwargs": 3}, "environment.kwargs=3 must be of type"),
  ({"network__hidden_sizes": "ab"}, "network.hidden_sizes='ab' must be"),
]


@pytest.mark.parametrize(("values", "words"), DAMAGED)
def test_a_damaged_config_without_a_copy(make_run, values, words):
  folder = make_run(snapshots_taken=0)
  damage(folder, **values)
  check_rejected(folder, [], [str(folder.config), words, "restore the file"])


@pytest.mark.parametrize(
  "title", ["cut", "no JSON", "wrong type", "no section"]
)
def test_a_damaged_config_is_rebuilt_from_the_newest_snapshot(
  make_run, title, caplog
):
  folder = make_run("--config.seed=7", snapshots_taken=2)
  before = folder.read_config()
  text = folder.config.read_text()
  if title == "cut":
    folder.config.write_text(text[: len(text) // 2])
  elif title == "no JSON":
    folder.config.write_bytes(bytes(range(256)))
  elif title == "wrong type":
    damage(folder, seed="one")
  else:
    damage(folder, replay=None)
  found = resume(folder)
  copy = folder.snapshots / "000002" / "config.json"
  assert f"its copy {copy} is used" in caplog.text
  found.begin()
  assert folder.read_config().to_dict() == before.to_dict()


def test_a_run_of_a_version_with_fewer_fields(make_run, caplog):
  config = parse("--config=apex_dqn", "--config.seed=7")
  complete = config.to_dict()
  with config.unlocked():
    del config.bonus, config.learner.averaging
  run = make_run(config=config)
  found = resume(run)
  assert "defaults: learner.averaging=0.0, bonus.kind='none'" in caplog.text
  found.begin()
  assert run.read_config().to_dict() == complete


@pytest.mark.parametrize(
  "arguments", [("--config=r2d2",), ("--config.adder.n_step=1",)]
)
def test_the_config_of_another_run(make_run, tmp_path, arguments):
  folder = make_run()
  folder.write_config(parse(*arguments))
  copy = folder.snapshots / "000001" / "config.json"
  check_rejected(
    folder,
    [],
    [str(folder.config), "snapshot 1 was written with", f"from {str(copy)!r}"],
  )


def test_it_imports_neither_tensorflow_nor_reverb():
  source = (
    "import sys\n"
    "from slipway.launch.commands import train\n"
    "assert not {'tensorflow', 'reverb'} & sys.modules.keys()\n"
  )
  subprocess.run([sys.executable, "-c", source], check=True, cwd=_ROOT)
