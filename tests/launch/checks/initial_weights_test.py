"""Tests of runs that begin with the weights of another run."""

import numpy as np
import pytest

from slipway.agents import registry
from slipway.configs import catalog
from slipway.environments import factory
from slipway.launch.checks import initial_weights
from slipway.launch.runs import (
  checkpoints,
  config_file,
  recorded_spaces,
  run_folder,
  snapshot_store,
)
from tests.agents import collected
from tests.launch import saved

CONFIGS = catalog.algorithms()


def make_config(name, preset="cartpole"):
  config = CONFIGS[name].get_config(preset)
  config.network.hidden_sizes = (16, 16)
  config.learner.batch_size = 16
  return config


def make_learner(config):
  spec = factory.make_spec(config.environment)
  return registry.make_builder(config.agent).make_learner(config, spec)


def write_run(path, config, learner=None):
  """Writes the folder of a run, with a snapshot if there is a learner."""
  folder = run_folder.RunFolder.create(path, "before", overwrite=False)
  folder.write_config(config)
  recorded_spaces.write(folder, factory.make_spec(config.environment))
  if learner is not None:
    store = snapshot_store.SnapshotStore(
      folder, 2, files={run_folder.CONFIG: config_file.to_json(config)}
    )
    with store.writing() as snapshot:
      saved.COUNTERS.write(snapshot)
      checkpoints.save(snapshot, learner)
  return str(folder.path)


@pytest.mark.parametrize("name", ["dqn", "ppo", "sac", "r2d2", "muzero"])
def test_a_run_begins_with_the_weights_of_another(tmp_path, name):
  config = make_config(name)
  if name == "ppo":
    config.learner.update({"batch_size": 4, "minibatch_size": 32})
    config.normalization.observations = True
  before = make_learner(config)
  items = registry.make_builder(config.agent)
  spec = factory.make_spec(config.environment)
  count = items.make_table(config, spec).batch_size
  batch = collected.collect_batch(config, before.get_variables(), count)
  before.update(batch)
  path = write_run(tmp_path, config, before)

  config.seed += 1
  config.learner.init_from = path
  initial_weights.check(config, spec)
  after = make_learner(config)
  checkpoints.start(after, None, path)
  assert int(before.steps) > 0 and int(after.steps) == 0
  expected, found = before.get_variables(), after.get_variables()
  assert expected.keys() == found.keys()
  for variable, value in expected.items():
    np.testing.assert_array_equal(found[variable], value)


# changed fields of the new run, words of the error
REJECTED = [
  ({"network.hidden_sizes": (8, 8)}, "network.hidden_sizes=(16, 16)"),
  ({"network.dueling": True}, "network.dueling=False"),
  ({"environment.name": "Acrobot-v1"}, "has other observations"),
]


@pytest.mark.parametrize(("changes", "words"), REJECTED)
def test_weights_that_do_not_fit_are_rejected(tmp_path, changes, words):
  config = make_config("dqn")
  config.learner.init_from = write_run(tmp_path, config, make_learner(config))
  for name, value in changes.items():
    section, _, field = name.partition(".")
    config[section][field] = value
  spec = factory.make_spec(config.environment)
  with pytest.raises(ValueError) as caught:
    initial_weights.check(config, spec)
  assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_run_without_a_snapshot_is_rejected(tmp_path):
  config = make_config("dqn")
  config.learner.init_from = write_run(tmp_path, config)
  with pytest.raises(ValueError, match="has no complete snapshot, so"):
    initial_weights.check(config, factory.make_spec(config.environment))
  config.learner.init_from = str(tmp_path / "nothing")
  with pytest.raises(ValueError, match="does not exist, so it is not a run"):
    initial_weights.check(config, factory.make_spec(config.environment))
