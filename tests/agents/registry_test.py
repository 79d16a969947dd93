"""The registry and the DQN family's builder."""

import subprocess
import sys

import numpy as np
import pytest
from acme import specs

from agents import registry
from configs import apex_dqn, dqn


def make_spec(actions=None, shape=(4,), dtype=np.float32):
  return specs.EnvironmentSpec(
    observations=specs.Array(shape, dtype),
    actions=actions or specs.DiscreteArray(2),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0, 1),
  )


@pytest.mark.parametrize("name", ["dqm", "", "DQN", "apex"])
def test_unknown_agent_names_the_nearest(name):
  with pytest.raises(ValueError) as error:
    registry.make_builder(name)
  message = str(error.value)
  assert message.startswith(f"config.agent={name!r} is no algorithm")
  assert "\n" not in message
  if name == "dqm":
    assert "did you mean 'dqn'?" in message
  for known in registry._BUILDERS:
    assert known in message


@pytest.mark.parametrize("name", registry._BUILDERS)
def test_each_builder_has_the_whole_interface(name):
  builder = registry.make_builder(name)
  for method in ("check", "make_layout", "make_learner", "make_actor",
                 "make_greedy_actor", "make_adder"):  # fmt: skip
    assert callable(getattr(builder, method))


def run_python(code):
  done = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=False
  )
  assert done.returncode == 0, done.stderr
  return done.stdout.strip()


@pytest.mark.parametrize(
  "module",
  ["agents.dqn.builder", "agents.registry", "environments.factory"],
)
def test_import_without_tensorflow(module):
  """A worker of an MLP pays neither its seconds nor its memory."""
  code = (
    f"import sys, {module}\n"
    "print([x for x in ('tensorflow', 'reverb') if x in sys.modules])"
  )
  assert run_python(code) == "[]"


def test_actor_of_an_mlp_acts_without_tensorflow():
  code = """
import sys
import numpy as np
from acme import specs
from agents import registry
from configs import dqn
spec = specs.EnvironmentSpec(
    specs.Array((4,), np.float32), specs.DiscreteArray(2),
    specs.Array((), np.float32), specs.BoundedArray((), np.float32, 0, 1))
config = dqn.get_config()
builder = registry.make_builder(config.agent)
actor = builder.make_actor(config, spec, worker=0)
shapes = {'torso/linear_0': (4, 64), 'advantage/hidden': (64, 64),
          'advantage/output': (64, 2)}
variables = {f'{x}/w': np.ones(s, np.float32) for x, s in shapes.items()}
variables |= {f'{x}/b': np.ones(s[1], np.float32) for x, s in shapes.items()}
actor.load(variables)
decision = actor.act(np.ones((8, 4), np.float32))
no = np.zeros(8, bool)
adder = builder.make_adder(config, spec)
for _ in range(2):
  items = adder.add(np.ones((8, 4)), decision, np.ones(8), no, no, no, 1)
print(decision.action.shape, items.rows.shape, 'tensorflow' in sys.modules)
"""
  assert run_python(code) == "(8,) (8, 52) False"


def test_dqn_refuses_continuous_actions_in_one_line():
  config = dqn.get_config()
  builder = registry.make_builder("dqn")
  builder.check(config, make_spec())
  spec = make_spec(specs.BoundedArray((2,), np.float32, -1, 1))
  with pytest.raises(ValueError) as error:
    builder.check(config, spec)
  message = str(error.value)
  assert "config.environment.name='CartPole-v1' takes float32 [2]" in message
  assert "\n" not in message


def test_dqn_refuses_a_torso_that_does_not_fit():
  config = dqn.get_config("pong")
  builder = registry.make_builder("dqn")
  builder.check(config, make_spec(shape=(4, 84, 84), dtype=np.uint8))
  with pytest.raises(ValueError, match=r"config\.network\.torso='nature_cnn'"):
    builder.check(config, make_spec())


def test_actors_of_a_run_differ_and_repeat():
  config = apex_dqn.get_config()
  config.topology.environments_per_worker = 8
  builder, spec = registry.make_builder("dqn"), make_spec()
  learner = builder.make_learner(config, spec)
  observation = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)

  def run(worker):
    actor = builder.make_actor(config, spec, worker)
    actor.load(learner.get_variables())
    return np.array([actor.act(observation).action for _ in range(100)])

  np.testing.assert_array_equal(run(0), run(0))
  assert (run(0) != run(1)).any()
  greedy = builder.make_greedy_actor(config, spec)
  greedy.load(learner.get_variables())
  np.testing.assert_array_equal(
    greedy.act(observation).action, greedy.act(observation).action
  )


def test_adder_follows_the_config():
  config = dqn.get_config()
  config.adder.update({"n_step": 2, "discount": 0.5})
  config.topology.environments_per_worker = 1
  builder, spec = registry.make_builder("dqn"), make_spec()
  adder = builder.make_adder(config, spec)
  actor = builder.make_greedy_actor(config, spec)
  actor.load(builder.make_learner(config, spec).get_variables())
  observation, no = np.zeros((1, 4), np.float32), np.array([False])
  decision = actor.act(observation)
  for _ in range(3):
    items = adder.add(observation, decision, np.float32([1]), no, no, no, 1)
  found = builder.make_layout(config, spec).row.unpack(items.rows)
  np.testing.assert_array_equal(found["r_t"], [1.5])
  np.testing.assert_array_equal(found["discount_t"], [0.25])
