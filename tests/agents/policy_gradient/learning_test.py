"""Tests of the policy-gradient learner: effects and inputs of an update."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import policies
from slipway.agents.networks import network, recurrent
from slipway.configs import a2c, appo, catalog, impala, ppo, vmpo
from tests.agents import collected

ROLLOUTS = 8


def make_config(**learner):
  config = ppo.get_config()
  config.network.hidden_sizes = (16,)
  config.learner.update({"epochs": 3, "minibatch_size": 64, **learner})
  return config


make_learner = collected.make_learner


def make_batch(config, skipped=0):
  """Returns rollouts of the initial policy, with some ended episodes."""
  builder, spec = collected.build(config)
  table = builder.make_table(config, spec)
  variables = make_learner(config).get_variables()
  data = collected.collect(config, variables, ROLLOUTS * (skipped + 1))
  return collected.make_batch(table.schema, data[-ROLLOUTS:])


def make_update(learner):
  return tf.function(learner.update, autograph=False)


def assert_equal(one, other):
  assert one.keys() == other.keys()
  for name, value in one.items():
    np.testing.assert_array_equal(value, other[name], err_msg=name)


def differ(one, other, prefix):
  return any(
    (one[name] != other[name]).any() for name in one if name.startswith(prefix)
  )


def change(batch, **fields):
  return batch._replace(data=batch.data._replace(**fields))


def value_torso(layers, observation):
  """Torso whose layer has the name of the layer of state values."""
  return layers.linear("value", layers.ops.float32(observation), 8)


@pytest.mark.parametrize(
  ("fields", "is_taken"),
  [
    ({"shared": True}, True),
    ({"shared": True, "core_size": 4}, True),
    ({"shared": False, "core_size": 4}, True),
    ({"shared": False}, False),  # the values have a network of their own
  ],
)
def test_a_torso_with_the_name_of_the_value_layer(fields, is_taken):
  config = make_config(minibatch_size=0, epochs=1)
  config.network.update(torso=f"{__name__}:value_torso", **fields)
  builder, spec = collected.build(config)
  if not is_taken:
    builder.check(config, spec)
    make_learner(config)
    return
  for make in (builder.check, builder.make_learner):
    with pytest.raises(ValueError, match="variable 'value/w'") as caught:
      make(config, spec)
    assert "\n" not in str(caught.value)


def test_autoresets_have_no_influence():
  config = make_config()
  batch = make_batch(config, skipped=1)
  resets = batch.data.first.numpy()[:, 1:]
  assert resets.sum() >= 3
  random = np.random.default_rng(0)

  def noise(field, sign=1.0):
    old = field.numpy()
    new = sign * random.uniform(1, 9, old.shape)
    return tf.constant(np.where(resets, new, old).astype(old.dtype))

  data = batch.data
  log_prob = noise(data.extras[policies.LOG_PROB], sign=-1.0)
  changed = change(
    batch,
    reward=noise(data.reward),
    action=tf.constant(
      np.where(resets, 1 - data.action, data.action), data.action.dtype
    ),
    extras={**data.extras, policies.LOG_PROB: log_prob},
  )
  assert_equal(
    *collected.update_on_each(make_learner(config), (batch, changed))
  )


@pytest.mark.parametrize("truncated", [False, True])
def test_only_a_truncated_episodes_last_observation_has_influence(truncated):
  config = make_config()
  batch = make_batch(config, skipped=1)
  ended = batch.data.ended.numpy()
  # Treats the end of each episode as a truncation, or else as a termination.
  discount = config.adder.discount * np.where(ended, float(truncated), 1.0)
  batch = change(batch, discount=tf.constant(discount, tf.float32))
  # The ended episode's last observation is that of the autoreset step.
  observation = batch.data.observation.numpy().copy()
  observation[:, 1:][ended] += 3.0
  changed = change(batch, observation=tf.constant(observation))
  one, other = collected.update_on_each(make_learner(config), (batch, changed))
  if truncated:
    assert differ(one, other, "value/")
  else:
    names = collected.get_values(make_learner(config))
    assert_equal({x: one[x] for x in names}, {x: other[x] for x in names})


def test_another_seed_gives_other_minibatches():
  results = []
  config = make_config()
  batch, start = make_batch(config), make_learner(config)
  for seed in (1, 2):
    config.seed = seed
    learner = make_learner(config)
    for name in ("policy", "value"):
      to, origin = (x.checkpointed[name] for x in (learner, start))
      to.load(origin.get_variables())
    learner.update(batch)
    results.append(collected.get_values(learner))
  assert differ(*results, "policy/")


def test_step_size_and_clip_fall_but_not_to_zero():
  config = make_config(decay_steps=2, epochs=1, minibatch_size=256)
  batch, learner = make_batch(config), make_learner(config)
  changes = []
  for _ in range(4):
    before = collected.get_values(learner)
    learner.update(batch)
    after = collected.get_values(learner)
    changes.append(
      max(
        np.abs(after[name] - x).max()
        for name, x in before.items()
        if name.startswith("policy/")
      )
    )
  assert changes[0] > changes[1] > changes[2] > 0
  assert changes[3] > 0


def make_config_function(module, environment="CartPole-v1", **fields):
  """Returns a function that makes a small config."""

  def make():
    config = module.get_config()
    config.environment.name = environment
    # The graph of a recurrent network repeats its operations for each step.
    config.adder.unroll = 4 if fields.get("core_size") else 16
    config.topology.environments_per_worker = config.learner.batch_size = 8
    if config.learner.minibatch_size:
      minibatch_size = 4 * config.adder.unroll
      config.learner.update({"minibatch_size": minibatch_size, "epochs": 2})
    config.network.update({"hidden_sizes": (16,), **fields})
    return config

  return make


RECURRENT = {"core_size": 8, "shared": True}
SEPARATE_LSTMS = {"core_size": 8, "shared": False}
VARIANTS = {
  **{
    name: make_config_function(module)
    for name, module in catalog.algorithms().items()
    if module.get_config().agent == "policy_gradient"
  },
  "a2c_shared": make_config_function(a2c, shared=True),
  "impala_recurrent": make_config_function(impala, **RECURRENT),
  "ppo_recurrent": make_config_function(ppo, **RECURRENT),
  "ppo_separate_lstms": make_config_function(ppo, **SEPARATE_LSTMS),
  "ppo_continuous": make_config_function(ppo, "Pendulum-v1"),
  "appo": make_config_function(
    appo, "Pendulum-v1", distribution="conditional_gaussian"
  ),
  "appo_tanh": make_config_function(
    appo, "Pendulum-v1", distribution="tanh_gaussian"
  ),
  "vmpo_recurrent": make_config_function(vmpo, **RECURRENT),
  "vmpo_separate_lstms": make_config_function(vmpo, **SEPARATE_LSTMS),
  "vmpo_continuous": make_config_function(vmpo, "Pendulum-v1"),
}
variants = pytest.mark.parametrize("variant", VARIANTS)


@functools.cache
def collect_variant(variant):
  return collect(VARIANTS[variant]())


def collect(config):
  """Returns two batches of one policy; episodes end in the second."""
  builder, spec = collected.build(config)
  builder.check(config, spec)
  variables = make_learner(config).get_variables()
  items = config.learner.batch_size
  data = collected.collect(config, variables, 6 * items)
  schema = builder.make_table(config, spec).schema
  return [
    collected.make_batch(schema, part) for part in (data[:items], data[-items:])
  ]


@pytest.mark.parametrize(
  "variant", sorted(VARIANTS.keys() - {"ppo_separate_lstms", "vmpo_recurrent"})
)
def test_every_variant_learns_and_resumes_bit_for_bit(variant, tmp_path):
  config, batches = VARIANTS[variant](), collect_variant(variant)
  if config.environment.name == "CartPole-v1":
    assert batches[1].data.first.numpy().any()
  first, second = make_learner(config), make_learner(config)
  updates = [make_update(first), make_update(second)]
  before = collected.get_values(first)
  assert_equal(before, collected.get_values(second))  # of one seed
  metrics = updates[0](batches[1]).metrics
  after = collected.get_values(first)
  changed = {name for name in before if (before[name] != after[name]).any()}
  assert any(name.startswith("policy/") for name in changed)
  unchanged = {name.split("/")[0] for name in before.keys() - changed}
  assert unchanged <= {"optimizer", "dead_units"}
  for name, value in metrics.items():
    assert value.shape == () and np.isfinite(value), name
  collected.restore(first, second, tmp_path)
  for update in updates:
    update(batches[0])
  assert_equal(collected.get_values(first), collected.get_values(second))


@pytest.mark.parametrize("variant", ["reinforce", "a2c", "impala"])
def test_losses_of_policy_and_values_change_only_their_own_weights(variant):
  """Advantages and the values' targets have no gradient in the common loss."""
  config = VARIANTS[variant]()
  config.learner.max_gradient_norm = 1e6  # common norm of all gradients
  batch, results = collect_variant(variant)[1], []
  # V-trace's ratios then differ from 1, and are not clipped.
  extras = dict(batch.data.extras)
  extras[policies.LOG_PROB] += 0.3
  batch = change(batch, extras=extras)
  for value_weight in (0.0, 1.0):
    config.learner.value_weight = value_weight
    learner = make_learner(config)
    start = collected.get_values(learner)
    learner.update(batch)
    results.append(collected.get_values(learner))
  without, with_values = results
  assert differ(start, without, "policy/")
  assert not differ(start, without, "value/")
  assert differ(start, with_values, "value/")
  assert not differ(without, with_values, "policy/")


@variants
def test_behaviour_log_probs_equal_those_of_the_graph(variant):
  """The divergence from the behaviour is 0 if the policy is the same."""
  config = VARIANTS[variant]()
  config.learner.epochs, config.learner.minibatch_size = 1, 0
  for batch in collect_variant(variant):
    metrics = make_learner(config).update(batch).metrics
    assert abs(metrics["kl"]) < 1e-6
    assert metrics.get("clip_fraction", 0) == 0  # all ratios are 1


def test_an_lstm_learns_with_the_rewards_of_its_actor():
  """The LSTM gets the raw rewards; only targets use normalized ones."""
  config = make_config_function(ppo, "Pendulum-v1", **RECURRENT)()
  config.normalization.rewards = True
  config.learner.epochs, config.learner.minibatch_size = 1, 0
  metrics = make_learner(config).update(collect(config)[1]).metrics
  assert abs(metrics["kl"]) < 1e-9


@pytest.mark.parametrize("variant", ["ppo", "a2c_shared", "ppo_recurrent"])
def test_only_the_acting_variables_are_published(variant):
  config = VARIANTS[variant]()
  builder, spec = collected.build(config)
  published = make_learner(config).get_variables()
  declared = network.variable_shapes(builder.make_network(config, spec))
  assert set(published) == {f"{policies.POLICY}/{x}" for x in declared}


def test_only_workers_have_the_lstm_of_separate_values():
  config = VARIANTS["ppo_separate_lstms"]()
  builder, spec = collected.build(config)
  published = make_learner(config).get_variables()
  declared = network.variable_shapes(builder.make_network(config, spec))
  names = {f"{policies.POLICY}/{x}" for x in declared}
  assert names < set(published)
  assert all("/value/" in x for x in set(published) - names)
  observation = np.zeros((2, *spec.observations.shape), np.float32)
  for actor, size in (
    (builder.make_actor(config, spec, 0), 32),
    (builder.make_greedy_actor(config, spec), 16),
  ):
    actor.load(published)
    actor.act(observation, np.zeros(2, np.float32), np.ones(2, bool))
    assert actor.get_state()["memory"][recurrent.STATE].shape == (2, size)


def test_the_limit_of_the_divergence_ends_the_update():
  config = make_config(epochs=20)
  batch, changes = make_batch(config), []
  start = make_learner(config).get_variables()
  for limit in (0.0, 1e-6):
    config.learner.kl_limit = limit
    learner = make_learner(config)
    make_update(learner)(batch)
    after = learner.get_variables()
    changes.append(sum(np.abs(after[x] - start[x]).sum() for x in start))
  # Without a limit there are 80 gradient steps. With it there are two: in the
  # first one, the divergence is still 0.
  assert 0 < changes[1] < 0.1 * changes[0]


def test_values_that_changed_much_get_no_gradient():
  config = make_config(epochs=30, learning_rate=0.01)
  batch, changes = make_batch(config), []
  for clip in (0.0, 0.01):
    config.learner.value_clip = clip
    learner = make_learner(config)
    before = learner.checkpointed["value"](batch.data.observation[:, 0])
    make_update(learner)(batch)
    after = learner.checkpointed["value"](batch.data.observation[:, 0])
    changes.append(float(tf.reduce_mean(tf.abs(after - before))))
  assert changes[1] < 0.5 * changes[0]


def test_vmpo_keeps_its_multipliers_above_their_lowest_value():
  """While a constraint holds, its multiplier falls; here all of them hold."""
  config = VARIANTS["vmpo_continuous"]()
  config.learner.update(
    {"kl_multiplier": 1e-6, "kl_bound": 1e6, "std_kl_bound": 1e6}
  )
  config.learner.learning_rate = 0.1
  batches, learner = collect_variant("vmpo_continuous"), make_learner(config)
  for _ in range(5):
    metrics, _ = learner.update(batches[0])
  assert float(metrics["kl_multiplier"]) == pytest.approx(1e-6, rel=1e-3)


def test_gradients_of_networks_do_not_shrink_the_steps_of_dual_variables():
  # Song et al. 2019, equation 5: Adam on the losses of eta and alpha, in NumPy.
  # The gradients of the networks, and their clip, have no influence.
  config = VARIANTS["vmpo"]()
  config.learner.update({"epochs": 1, "max_gradient_norm": 1e-6})
  batch, learner = collect_variant("vmpo")[1], make_learner(config)
  settings, rate = config.learner, config.learner.learning_rate
  eta, alpha = settings.temperature, settings.kl_multiplier
  data, before = batch.data, collected.get_values(learner)
  learned = ~data.first.numpy()[:, 1:]
  v = learner.checkpointed["value"](tf.reshape(data.observation, [-1, 4]))
  v = v.numpy().astype(np.float64).reshape(data.first.shape)
  advantage, later = np.zeros(learned.shape), np.zeros(len(learned))
  for t in reversed(range(learned.shape[1])):
    discount = data.discount.numpy()[:, t].astype(np.float64)
    delta = data.reward.numpy()[:, t] + discount * v[:, t + 1] - v[:, t]
    later = delta + discount * settings.gae_lambda * later * (
      1 - data.ended.numpy()[:, t]
    )
    advantage[:, t] = later
  found = np.sort(advantage[learned])[::-1]
  top = found[: len(found) // 2] / eta
  psi = np.exp(top) / np.exp(top).sum()
  log_mean = np.log(np.exp(top).mean())
  # d / d log(eta), and d / d log(alpha) before the policy has moved.
  of_eta = eta * (settings.temperature_bound + log_mean - (psi * top).sum())
  of_alpha = alpha * settings.kl_bound
  learner.update(batch)
  after = collected.get_values(learner)
  for i, gradient in enumerate((of_eta, of_alpha)):
    # Adam's first step: rate g / (|g| + epsilon / sqrt(1 - beta_2)).
    epsilon = settings.adam_epsilon / np.sqrt(1 - 0.999)
    step = rate * gradient / (abs(gradient) + epsilon)
    change_of = before[f"objective/{i}/0"] - after[f"objective/{i}/0"]
    np.testing.assert_allclose(change_of, step, rtol=1e-3)
