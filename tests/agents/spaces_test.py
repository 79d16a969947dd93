"""Tests of algorithms with many spaces: legal actions, finite updates."""

import gymnasium
import numpy as np
import pytest

from slipway.configs import catalog, fields
from tests.agents import collected
from tests.environments import shaped

CONFIGS = catalog.algorithms()
LAYOUTS = ("hw", "hwc", "chw", "shwc", "schw", "inner_image")


def make_config(name, **kwargs):
  config = CONFIGS[name].get_config("cartpole")
  config.network.hidden_sizes = (16, 16)
  config.topology.environments_per_worker = 4
  if name == "ppo":
    config.learner.epochs = 2
  for field, value in shaped.config_of(**kwargs).items():
    config.environment[field] = value
  return config


def build(config):
  """Returns the builder and the spec of a valid config."""
  builder, spec = collected.build(config)
  builder.check(config, spec)
  return builder, spec


def learn(config):
  """Updates a learner on a worker's items; returns the metrics."""
  builder, spec = build(config)
  fields.validate(config, builder.fields)
  learner = builder.make_learner(config, spec)
  table = builder.make_table(config, spec)
  # The environment raises an error for an illegal action.
  data = collected.collect(config, learner.get_variables(), table.batch_size)
  metrics, priorities = learner.update(collected.make_batch(table.schema, data))
  if priorities is not None:
    assert np.isfinite(priorities).all()
    assert np.max(priorities) < 1e4  # not the value of an illegal action
  metrics = {name: float(x) for name, x in metrics.items()}
  assert all(np.isfinite(x) for x in metrics.values())
  return metrics


@pytest.mark.parametrize(
  ("name", "action"),
  [
    *(
      (name, "multi_discrete")
      for name in ("dqn", "munchausen_dqn", "c51", "iqn", "rainbow", "r2d2")
    ),
    *(("ppo", action) for action in shaped.ACTIONS),
    ("dqn", "discrete"),
    ("muzero", "discrete"),
    ("muzero", "multi_discrete"),
    ("sac", "discrete"),  # SAC takes actions of one component
  ],
)
def test_masked_actions_are_neither_taken_nor_learned_from(name, action):
  config = make_config(name, observation="parts", action=action, masked=True)
  metrics = learn(config)
  for metric in ("loss", "q_mean", "policy_loss", "kl", "gradient_norm"):
    assert abs(metrics.get(metric, 0.0)) < 1e3
  if name in ("ppo", "sac"):
    # Half of all actions are illegal.
    assert 0 < metrics["entropy"] < np.log(shaped.SIZES[action]).sum()


@pytest.mark.parametrize("action", shaped.ACTIONS)
def test_masked_actions_are_not_taken_at_large_values(action):
  """All returns are far below -1e9, the order of usual penalties."""
  config = make_config("c51", action=action, masked=True)
  network = config.network
  network.lowest_return, network.highest_return = -1e18, -1e17
  builder, spec = build(config)
  actor = builder.make_greedy_actor(config, spec)
  actor.load(builder.make_learner(config, spec).get_variables())
  random = np.random.default_rng(0)
  sizes = shaped.SIZES[action]
  legal = np.stack([random.integers(size, size=50) for size in sizes], 1)
  mask = np.zeros((50, sum(sizes)), bool)
  mask[np.arange(50)[:, None], np.cumsum(sizes) - sizes + legal] = True
  observation = random.normal(size=(50, 3)).astype(np.float32)
  joined = spec.observations.join(observation, mask)
  output = actor.act(joined, np.zeros(50, np.float32), np.ones(50, bool))
  expected = np.ravel_multi_index(tuple(legal.T), sizes)
  np.testing.assert_array_equal(output.action, expected)


@pytest.mark.parametrize("field", ["lowest_return", "highest_return"])
def test_returns_beyond_the_penalty_of_masks_are_rejected(field):
  config = make_config("c51", masked=True)
  config.network[field] = {"l": -1e30, "h": 1e30}[field[0]]
  with pytest.raises(ValueError, match=rf"network.{field}=.*1e\+30[^\n]*$"):
    build(config)
  unmasked = make_config("c51")
  unmasked.network[field] = config.network[field]
  build(unmasked)


def test_the_target_entropy_is_that_of_legal_actions():
  """Half of 4 actions are legal, so no entropy is near log 4."""
  config = make_config("sac", masked=True)
  config.learner.discrete_entropy = 0.9
  builder, spec = build(config)
  learner = builder.make_learner(config, spec)
  data = collected.collect(config, learner.get_variables(), 64)
  batch = collected.make_batch(builder.make_table(config, spec).schema, data)
  first, second = (learner.update(batch).metrics for _ in range(2))
  # The initial policy is nearly uniform: its entropy is above nine tenths of
  # each maximum, so the temperature falls.
  assert second["temperature"] < first["temperature"]


@pytest.mark.parametrize(
  ("name", "shape"),
  [
    ("ddpg", (2, 3)),
    ("sac", ()),
    ("sac", (1, 3)),
    ("mpo", ()),
    ("ppo", (2, 3)),
  ],
)
def test_continuous_actions_of_any_number_of_axes(name, shape, monkeypatch):
  space = gymnasium.spaces.Box(-2.0, 3.0, shape)
  monkeypatch.setitem(shaped.ACTIONS, "box", space)
  monkeypatch.setitem(shaped.SIZES, "box", (2,) * max(1, space.sample().size))
  environment = make_config("ppo", action="box").environment
  config = CONFIGS[name].get_config()
  config.environment = environment
  config.network.hidden_sizes = (16, 16)
  config.topology.environments_per_worker = 4
  config.normalization.observations = False
  # The environment raises an error for an action of another shape.
  learn(config)


def test_too_many_joint_actions_are_one_line(monkeypatch):
  many = gymnasium.spaces.MultiDiscrete([17, 16])
  monkeypatch.setitem(shaped.ACTIONS, "many", many)
  monkeypatch.setitem(shaped.SIZES, "many", (17, 16))
  for name in ("dqn", "r2d2"):
    with pytest.raises(ValueError, match="272, of 2 components"):
      build(make_config(name, action="many"))
  assert learn(make_config("ppo", action="many"))


@pytest.mark.parametrize(
  ("name", "observation", "masked"),
  [
    *(("dqn", layout, layout == "chw") for layout in LAYOUTS),
    ("ppo", "hwc", True),
    ("sac", "schw", True),
    ("sac", "inner_image", False),
  ],
)
def test_images_of_all_layouts(name, observation, masked):
  config = make_config(name, observation=observation, masked=masked)
  config.network.torso = "nature_cnn"
  config.learner.batch_size = 8
  if name == "ppo":
    config.learner.batch_size, config.learner.minibatch_size = 4, 8
    config.adder.unroll = 8
  learn(config)


@pytest.mark.parametrize("torso", ["nature_cnn", "minatar_cnn"])
def test_one_policy_for_colour_images_of_both_layouts(torso):
  """The pixels are the same, so the values do not depend on the layout."""
  images = np.random.default_rng(0).integers(0, 256, (4, 40, 48, 3), np.uint8)
  found = []
  for layout, batch in (("hwc", images), ("chw", np.moveaxis(images, 3, 1))):
    config = make_config("ppo", observation=layout)
    config.network.torso = torso
    builder, spec = build(config)
    actor = builder.make_actor(config, spec, worker=0)
    actor.load(builder.make_learner(config, spec).get_variables())
    output = actor.act(batch, np.zeros(4, np.float32), np.ones(4, bool))
    found.append(output.extras["log_prob"])
  np.testing.assert_allclose(*found, rtol=1e-4)
