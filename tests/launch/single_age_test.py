"""Single: the ages it reports are those of what it sampled."""

import subprocess
import sys

# In a process of its own: op determinism can't be switched off.
_RUN = """
import collections, pathlib, sys, time
import numpy as np
from configs import apex_dqn
from environments import factory
from launch import single
from launch.orchestration import run_control
from launch.runs import run_folder
from launch.turns import Turn

PERIOD, CALLS = 7, 300
config = apex_dqn.get_config()
config.network.hidden_sizes = (8,)
config.adder.n_step = 1  # what is inserted was decided in the call before
config.replay.update({"capacity": 400, "min_size": 100})
config.replay.transitions_per_item = 1
config.variables.publish_period = PERIOD
config.evaluation.period_steps = 1_000_000
folder = run_folder.RunFolder.create(
  pathlib.Path(sys.argv[1]), "a-run", overwrite=False
)
folder.write_config(config)
spec = factory.make_spec(config.environment)
control = run_control.RunControl(
  config, folder, {"worker": 1, "trainer": 1}, time.time()
)
run = single.Single(config, spec, folder, control)

turns = run.turns
table, sample, drawn = turns.table, turns.table.sample, []

def sample_and_note(batch_size):
  drawn.append(sample(batch_size))
  return drawn[-1]

table.sample = sample_and_note
version_of, acted_by, largest = [], None, 0
for _ in range(CALLS):
  updates, act_by = len(drawn), 1 + len(drawn) // PERIOD
  turns.collect()
  while turns.due is Turn.UPDATE:
    turns.update()
  version_of += [acted_by] * (table.inserted - len(version_of))
  acted_by = act_by
  if len(drawn) == updates:
    continue
  run.report()
  status = control.status()
  assert status.variables.version == 1 + len(drawn) // PERIOD
  keys = drawn[-1][0].astype(int)
  # Published before the last update, not after it.
  newest = 1 + (len(drawn) - 1) // PERIOD
  ages = newest - np.array(version_of)[keys]
  found = status.metrics
  assert abs(found["policy_age_versions_mean"] - ages.mean()) < 1e-9
  assert found["policy_age_versions_max"] == ages.max()
  largest = max(largest, ages.max())
control.close()
print(len(drawn) > 5 * PERIOD, largest > 3)
"""


def test_ages_equal_those_by_hand(tmp_path):
  done = subprocess.run(
    [sys.executable, "-c", _RUN, str(tmp_path)], capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout.split() == ["True", "True"]
