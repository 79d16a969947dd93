"""Turns: saved between any two of them, they go on equally; their order."""

import subprocess
import sys

import pytest

# In a process of its own: op determinism can't be switched off.
_SETUP = """
import collections, copy, pathlib, sys
import numpy as np
from configs import catalog
from environments import factory
from launch import turns as turns_lib
from launch.turns import Turn

def make_config():
  config = catalog.algorithms()[sys.argv[2]].get_config()
  config.network.hidden_sizes = (8,)
  config.exploration.schedule = "linear"
  config.topology.environments_per_worker = 4
  config.learner.batch_size = 8
  config.learner.target_update_period = 9
  config.replay.update(
    {"capacity": 300, "min_size": 20, "samples_per_insert": 4.0}
  )
  config.replay.transitions_per_item = 1  # what is counted below
  if config.agent == "r2d2":
    config.network.lstm_size = 4
    config.adder.update({"burn_in": 2, "unroll": 4, "period": 2})
  config.variables.publish_period = 7
  config.evaluation.update({"episodes": 3, "period_steps": 30})
  return config

def make(config, saved=None):
  spec = factory.make_spec(config.environment)
  return turns_lib.Turns(config, spec, saved)

def turn(turns):
  due = turns.due
  if due is Turn.EVALUATION:
    return due, turns.evaluate(lambda: False)
  return due, (turns.update if due is Turn.UPDATE else turns.collect)()

def plain(x):
  "What is equal where and only where two things are equal to the bit."
  if isinstance(x, np.ndarray):
    return x.dtype.str, x.shape, x.tobytes()
  if isinstance(x, dict):
    return {name: plain(value) for name, value in x.items()}
  if isinstance(x, list):
    return [plain(value) for value in x]
  if isinstance(x, bytes):
    return x
  return repr(x)

def state(turns):
  learner = turns._learner
  sums = turns.table._sums
  return plain({
    "variables": learner.get_variables(),
    "target": {
      str(i): v.numpy() for i, v in enumerate(learner.target.variables)
    },
    "adam": {
      str(i): v.numpy() for i, v in enumerate(learner._optimizer.variables)
    },
    "rows": turns.table._rows[: turns.table.size],
    "sums": sums,
    "drawing": turns.table._random.bit_generator.state,
    "inserted": turns.table.inserted,
    "sampled": turns.table.sampled,
    "actor": turns._collector._actor.get_state(),
    "adder": turns._collector._adder.get_state(),
    "before": turns._collector._before._asdict(),
    "returns": turns._collector.training_return,
    "version": turns.version,
    "published": dict(turns.variables),
    "env_steps": turns.env_steps,
    "trainer_steps": turns.trainer_steps,
    "metrics": {name: float(x) for name, x in turns.metrics.items()},
  })

folder = pathlib.Path(sys.argv[1])
config = make_config()
"""


def run(folder, script, algorithm="apex_dqn", saves=0):
  done = subprocess.run(
    [*(sys.executable, "-c", _SETUP + script), folder, algorithm, str(saves)],
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


@pytest.mark.parametrize(
  ("algorithm", "saves"), [("apex_dqn", 24), ("rainbow", 6), ("r2d2", 6)]
)
def test_saved_between_any_two_turns_they_go_on_equally(
  tmp_path, algorithm, saves
):
  said = run(
    tmp_path,
    """
turns = make(config)
before = collections.Counter()
random = np.random.default_rng(0)
saves = set(random.integers(1_100, size=int(sys.argv[3]))) | {1}
for i in range(1_200):
  if i in saves:
    # Of each kind that comes: once.
    path = folder / str(i)
    path.mkdir()
    turns.save(path)
    before[turns.due] += 1
    other = make(config, path)
    assert state(other) == state(turns), i
    for _ in range(60):
      assert repr(turn(other)) == repr(turn(turns))
    assert state(other) == state(turns), i
    turns = other
  turn(turns)
while turns.due is not Turn.EVALUATION:
  turn(turns)
(folder / "due").mkdir()
turns.save(folder / "due")
other = make(config, folder / "due")
assert other.due is Turn.EVALUATION
assert repr(turn(other)) == repr(turn(turns))
assert repr(turn(other)) == repr(turn(turns))
assert state(other) == state(turns)
assert turns.table.inserted > 2 * turns.table.size
print(len(before), min(before.values()) >= len(saves) // 8)
""",
    algorithm,
    saves,
  )
  assert said.split() == ["2", "True"]


def test_an_interrupted_evaluation_is_played_as_if_it_had_not_begun(tmp_path):
  said = run(
    tmp_path,
    """
turns = make(config)
for _ in range(2):
  while turns.due is not Turn.EVALUATION:
    turn(turns)
  last = turn(turns)[1]
while turns.due is not Turn.EVALUATION:
  turn(turns)
(folder / "a").mkdir()
turns.save(folder / "a")
other = make(config, folder / "a")
for steps in (1, 8):
  asked = iter([False] * steps + [True])
  assert other.evaluate(lambda: next(asked)) is None
  assert other.due is Turn.EVALUATION
(folder / "b").mkdir()
other.save(folder / "b")
third = make(config, folder / "b")
expected = turn(turns)
assert expected[1] != last
assert turn(other) == turn(third) == expected
assert turns.due is not Turn.EVALUATION
print("equal")
""",
  )
  assert said.split() == ["equal"]


def test_a_limit_leaves_what_is_owed_to_whoever_raises_it(tmp_path):
  said = run(
    tmp_path,
    """
turns = make(config)
limited = make_config()
limited.limits.trainer_steps = 101
first = make(limited)
while first.trainer_steps < 101:
  assert turn(first)[0] == turn(turns)[0]
assert first.due is Turn.COLLECTION and turns.due is Turn.UPDATE
first.save(folder)
second = make(config, folder)
for _ in range(100):
  assert repr(turn(second)) == repr(turn(turns))
assert state(second) == state(turns)
print("equal")
""",
  )
  assert said.split() == ["equal"]


def test_a_changed_ratio_has_no_burst_and_no_wait(tmp_path):
  said = run(
    tmp_path,
    """
turns = make(config)
for _ in range(700):
  turn(turns)
turns.save(folder)
for change in (
  {"samples_per_insert": 40.0},
  {"samples_per_insert": 0.4},
  {"samples_per_insert": 0.0},
  {"min_size": 100},
  {"min_size": 290},
  {"capacity": 500},
):
  changed = make_config()
  changed.replay.update(change)
  turns = make(changed, folder)
  done = [turn(turns)[0] for _ in range(400)]
  ratio = changed.replay.samples_per_insert or changed.learner.batch_size
  per_item = ratio / changed.learner.batch_size  # updates
  steps = [i for i, due in enumerate(done) if due is Turn.COLLECTION]
  # An episode that ends gives its last items all at once.
  most = 4 * changed.adder.n_step
  assert np.diff([-1, *steps]).max() <= most * per_item + 3, change
  # Some steps are autoresets, and make no item.
  updates = done.count(Turn.UPDATE)
  assert 0.75 < updates / len(steps) / (4 * per_item) < 1.1, change
print("even")
""",
  )
  assert said.split() == ["even"]


def test_evaluations_of_another_size_go_on_with_new_environments(tmp_path):
  said = run(
    tmp_path,
    """
turns = make(config)
while turns.due is not Turn.EVALUATION:
  turn(turns)
turns.save(folder)
config.evaluation.episodes = 5
turns = make(config, folder)
print(len(turn(turns)[1].returns))
""",
  )
  assert said.split() == ["5"]
