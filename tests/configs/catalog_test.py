"""Catalog: each preset of each algorithm is valid, and matches its paper."""

import re

import numpy as np
import pytest

from slipway.agents import registry
from slipway.configs import catalog, dqn, fields, names, r2d2
from slipway.launch.runs import config_file
from tests.environments import given, recorded

NAMES = list(catalog.algorithms())
PRESETS = [
  (name, preset)
  for name, module in catalog.algorithms().items()
  for preset in module.PRESETS
]


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_every_preset_is_valid_and_fits(name, preset, tmp_path):
  config = catalog.algorithms()[name].get_config(preset)
  if config.topology.workers == 0 or config.get("dataset", {}).get("ratio"):
    config.dataset.path = str(tmp_path / "recorded")
    recorded.record(config.dataset.path)
  builder = registry.make_builder(config.agent)
  fields.validate(config, builder.fields)
  spec = given.make_spec(config.environment)
  builder.check(config, spec)
  if (table := builder.make_table(config, spec)) is not None:
    assert np.prod(table.schema.item_shape) > 0
    builder.make_adder(config, spec)
  read = config_file.from_json(config_file.to_json(config))
  assert read.to_dict() == config.to_dict()
  fields.validate(read, builder.fields)


def test_the_presets_of_all_algorithms():
  found = catalog.presets()
  assert sorted(PRESETS) == sorted(
    (name, preset) for preset, names in found.items() for name in names
  )


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_preset_is_rejected_in_one_line(name):
  with pytest.raises(ValueError, match="'pung' is unknown") as error:
    catalog.algorithms()[name].get_config("pung")
  known = ", ".join(catalog.algorithms()[name].PRESETS)
  assert str(error.value).endswith(f"choose one of {known}")


@pytest.mark.parametrize(
  ("wrong", "similar"),
  [
    ("cartpol", "cartpole"),
    ("CartPole-v1", "cartpole"),
    ("atari", "atari57"),
    ("breakout", "minatar_breakout"),
    ("mujoco", None),
    ("", None),
  ],
)
def test_the_most_similar_preset(wrong, similar):
  assert names.find_preset(wrong, dqn.PRESETS) == similar


@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_changes_only_the_tables_of_its_family(name):
  recipe = catalog.algorithms()[name].RECIPE
  assert recipe.family is None or recipe.family.family is None


@pytest.mark.parametrize("name", NAMES)
def test_a_config_names_its_paper(name):
  paper = (catalog.algorithms()[name].__doc__ or "").split("\n\n")[0]
  assert re.search(r"[A-Z]\w+( et al\.)? (19|20)\d\d, \"", paper)
  assert paper.count('"') == 2


def differences(name, preset="minatar_breakout"):
  """Returns an algorithm's values that differ from those of DQN, by field."""
  own = fields.flatten(catalog.algorithms()[name].get_config(preset))
  before = fields.flatten(dqn.get_config(preset))
  return {k: v for k, v in own.items() if before.get(k) != v}


def test_configs_differ_as_their_papers_do():
  assert differences("dqn") == {}
  assert differences("double_dqn") == {"learner.double": True}
  assert differences("dueling_dqn") == {
    **differences("double_dqn"),
    "network.dueling": True,
  }
  assert differences("prioritized_dqn") == {
    **differences("double_dqn"),
    "replay.sampler": "prioritized",
  }
  assert differences("apex_dqn", "pong") == {
    **differences("dueling_dqn"),
    **differences("prioritized_dqn"),
    "adder.n_step": 3,
    "exploration.schedule": "ladder",
    "topology.workers": 2,
  }
  assert differences("c51") == {
    "network.head": "categorical",
    "learner.adam_epsilon": 0.01 / 32,
    "learner.target_update_period": 250,
  }
  assert differences("munchausen_dqn") == {"learner.munchausen_scale": 0.9}
  assert differences("rainbow") == {
    **differences("c51"),
    **differences("dueling_dqn"),
    **differences("prioritized_dqn"),
    **differences("noisy_dqn"),
    "adder.n_step": 3,
    "replay.priority_exponent": 0.5,
  }


@pytest.mark.parametrize(
  ("name", "rate", "epsilon", "norm"),
  [
    ("c51", 2.5e-4, 0.01 / 32, 10.0),
    ("qr_dqn", 5e-5, 0.01 / 32, 10.0),
    ("iqn", 5e-5, 0.01 / 32, 10.0),
    ("munchausen_dqn", 5e-5, 0.01 / 32, 10.0),
    ("rainbow", 6.25e-5, 1.5e-4, 10.0),
    ("apex_dqn", 2.5e-4 / 4, 1e-8, 40.0),
    ("r2d2", 1e-4, 1e-3, 40.0),
  ],
)
def test_atari57_has_the_steps_of_the_paper(name, rate, epsilon, norm):
  learner = catalog.algorithms()[name].get_config("atari57").learner
  assert (learner.learning_rate, learner.adam_epsilon) == (rate, epsilon)
  assert learner.max_gradient_norm == norm


def test_r2d2_rescales_values_instead_of_clipping_rewards():
  for preset in ("pong", "atari57"):
    assert r2d2.get_config(preset).environment.reward_clip == 0


@pytest.mark.parametrize(
  ("wrong", "similar"),
  [
    ("raimbow", "rainbow"),
    ("qrdqn", "qr_dqn"),
    ("PPO", "ppo"),
    ("DQN:CartPole", "dqn:cartpole"),
    ("dqn-cartpole", "dqn:cartpole"),
    ("dqn.cartpole", "dqn:cartpole"),
    ("double-dqn_pong", "double_dqn:pong"),
    ("ddqn:cartpol", "double_dqn:cartpole"),
    ("ppo:breakout", "ppo:minatar_breakout"),
    ("a3c", "a2c"),
    ("trpo", None),
    ("something", None),
    ("", None),
  ],
)
def test_the_most_similar_algorithm(wrong, similar):
  assert catalog.find_similar(wrong) == similar
