"""Tests of the registry, and of the builders with each preset."""

import subprocess
import sys

import numpy as np
import pytest

from slipway.agents import registry
from slipway.configs import apex_dqn, catalog, dqn, fields, ppo
from tests.agents import collected
from tests.environments import given, recorded

CONFIGS = catalog.algorithms()


# name of an agent, and words of the error line
WRONG = [
  ("dqm", "is no algorithm"),
  ("dqm", "did you mean dqn?"),
  ("", "is no algorithm"),
  ("DQN", "is no algorithm"),
  ("nowhere:Builder", "can't be imported"),
  ("nowhere:Builder", "give 'module:Name'"),
  (":Builder", "can't be imported"),
  (".ppo:Builder", "can't be imported"),
  ("slipway.agents.dqn.builder:Bilder", "builder:Builder'?"),
  ("./own/algorithm.py:Builder", "did you mean 'own.algorithm:Builder'"),
  ("os:getpid", "lacks fields, check, make_table"),
  ("collections:Counter", "make_table"),
]


@pytest.mark.parametrize(("name", "words"), WRONG)
def test_a_wrong_name_of_an_agent(name, words):
  with given.one_line() as error:
    registry.make_builder(name)
  message = str(error.value)
  assert message.startswith(f"config.agent={name!r}") and words in message


def test_a_builder_in_a_user_module(tmp_path, monkeypatch):
  (tmp_path / "mine.py").write_text(
    "from slipway.agents.policy_gradient import builder\n\n\n"
    "class Own(builder.Builder):\n  pass\n"
  )
  monkeypatch.syspath_prepend(tmp_path)
  builder = registry.make_builder("mine:Own")
  assert type(builder).__name__ == "Own"
  config = ppo.get_config()
  config.agent = "mine:Own"
  fields.validate(config, builder.fields)
  builder.check(config, given.spec_of(actions=2))


@pytest.mark.parametrize("name", CONFIGS)
def test_each_algorithm_acts_and_learns(name, tmp_path):
  config = CONFIGS[name].get_config(next(iter(CONFIGS[name].PRESETS)))
  if config.topology.workers == 0 or config.get("dataset", {}).get("ratio"):
    config.dataset.path = str(tmp_path / "recorded")
    recorded.record(config.dataset.path)
  config.network.hidden_sizes = (16, 16)
  spec = given.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  learner = builder.make_learner(config, spec)
  variables = learner.get_variables()
  envs = config.topology.environments_per_worker
  for actor in (
    builder.make_actor(config, spec, worker=0),
    builder.make_greedy_actor(config, spec),
  ):
    actor.load(variables)
    action, _ = actor.act(
      np.zeros((envs, *spec.observations.shape), spec.observations.dtype),
      np.zeros(envs, np.float32),
      np.ones(envs, bool),
    )
    assert action.shape == (envs, *spec.actions.shape)
    assert action.dtype == spec.actions.dtype
  table = builder.make_table(config, spec)
  data = collected.collect(config, variables, table.batch_size)
  assert data[0].size == np.prod(table.schema.item_shape)
  metrics, priorities = learner.update(collected.make_batch(table.schema, data))
  assert all(np.isfinite(x) for x in metrics.values())
  assert (priorities is not None) or not table.prioritized
  assert learner.steps.numpy() == 1


def run_python(code):
  process = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=False
  )
  assert process.returncode == 0, process.stderr
  return process.stdout.strip()


def test_import_without_tensorflow():
  """A worker with an MLP saves the time and memory of TensorFlow."""
  run_python("""
import sys
from slipway.agents import epsilon_greedy, policies, registry
from slipway.agents.networks import critic_network, encoder_network
from slipway.environments import factory
for family in registry.FAMILIES:
  registry.make_builder(family)
assert not {"tensorflow", "reverb"} & sys.modules.keys()
""")


def test_actor_of_an_mlp_acts_without_tensorflow():
  code = """
import sys
import numpy as np
from slipway.agents import registry
from slipway.configs import dqn
from tests.environments import given
spec = given.spec_of(actions=2)
config = dqn.get_config()
config.adder.n_step = 1
builder = registry.make_builder(config.agent)
actor = builder.make_actor(config, spec, worker=0)
shapes = {'torso/linear_0': (4, 64), 'advantage/hidden': (64, 64),
          'advantage/output': (64, 2)}
variables = {f'{x}/w': np.ones(s, np.float32) for x, s in shapes.items()}
variables |= {f'{x}/b': np.ones(s[1], np.float32) for x, s in shapes.items()}
actor.load(variables)
no = np.zeros(8, bool)
output = actor.act(np.ones((8, 4), np.float32), np.zeros(8, np.float32), no)
adder = builder.make_adder(config, spec)
x = np.ones((8, 4))
for _ in range(2):
  items = adder.add(x, output, np.ones(8), no, no, no, x, 1)
print(output.action.shape, items.records.shape, 'tensorflow' in sys.modules)
"""
  assert run_python(code) == "(8,) (8, 52) False"


def test_actors_of_a_run_differ_and_repeat():
  config = apex_dqn.get_config()
  config.topology.environments_per_worker = 8
  builder, spec = registry.make_builder("dqn"), given.spec_of(actions=2)
  learner = builder.make_learner(config, spec)
  observation = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
  inputs = (observation, np.zeros(8, np.float32), np.zeros(8, bool))

  def run(worker):
    actor = builder.make_actor(config, spec, worker)
    actor.load(learner.get_variables())
    return np.array([actor.act(*inputs).action for _ in range(100)])

  np.testing.assert_array_equal(run(0), run(0))
  assert (run(0) != run(1)).any()
  greedy = builder.make_greedy_actor(config, spec)
  greedy.load(learner.get_variables())
  np.testing.assert_array_equal(
    greedy.act(*inputs).action, greedy.act(*inputs).action
  )


def test_evaluations_act_by_their_own_epsilon():
  config = dqn.get_config()
  builder, spec = registry.make_builder("dqn"), given.spec_of(actions=2)
  inputs = np.zeros((1_000, 4), np.float32), np.zeros(1_000), np.ones(1_000)
  variables = builder.make_learner(config, spec).get_variables()

  def act(epsilon):
    config.exploration.evaluation_epsilon = epsilon
    actor = builder.make_greedy_actor(config, spec)
    actor.load(variables)
    return actor.act(*inputs).action

  greedy = act(0.0)
  assert (greedy == greedy[0]).all()
  # Half of the random ones of two actions are the greedy one: 100 of 1,000,
  # within six standard deviations.
  assert 43 < (act(0.2) != greedy).sum() < 157


def test_adder_follows_the_config():
  config = dqn.get_config()
  config.adder.update({"n_step": 2, "discount": 0.5})
  config.topology.environments_per_worker = 1
  builder, spec = registry.make_builder("dqn"), given.spec_of(actions=2)
  adder = builder.make_adder(config, spec)
  actor = builder.make_greedy_actor(config, spec)
  actor.load(builder.make_learner(config, spec).get_variables())
  observation, no = np.zeros((1, 4), np.float32), np.array([False])
  output = actor.act(observation, np.zeros(1, np.float32), no)
  for _ in range(3):
    items = adder.add(
      observation, output, np.float32([1]), no, no, no, observation, 1
    )
  found = builder.make_table(config, spec).schema.record.unpack(items.records)
  np.testing.assert_array_equal(found["r_t"], [1.5])
  np.testing.assert_array_equal(found["discount_t"], [0.25])
