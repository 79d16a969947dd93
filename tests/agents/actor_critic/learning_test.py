"""Tests of the actor-critic learner: effects and inputs of an update."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import policies
from slipway.agents.actor_critic import improvement
from slipway.agents.networks import network as network_lib
from slipway.agents.networks import tf_ops
from slipway.configs import catalog
from tests.agents import collected

ITEMS = 32
ALGORITHMS = [
  name
  for name, module in catalog.algorithms().items()
  if module.get_config().agent == "actor_critic"
]
# Algorithms that learn from transitions, some with a preset.
TRANSITIONS = (
  *ALGORITHMS,
  "sac:cartpole",
  "sac:minatar_breakout",
  "iql:cartpole",
  "crr:cartpole",
)
# Algorithms that learn from sequences, by Retrace.
SEQUENCES = ("retrace sac", "retrace mpo")
NAMES = (*TRANSITIONS, *SEQUENCES)


def make_config(name="sac", critics=None, **learner):
  is_retrace, name = name in SEQUENCES, name.removeprefix("retrace ")
  name, _, preset = name.partition(":")
  module = catalog.algorithms()[name]
  if preset == "cartpole" and preset not in module.PRESETS:
    config = module.get_config()
    config.environment.name = "CartPole-v1"
  else:
    default = "pendulum" if "pendulum" in module.PRESETS else "generic"
    config = module.get_config(preset or default)
  if name == "mpo":  # by default its targets are constant for 100 updates
    config.learner.update({"action_samples": 3, "target_update_period": 2})
  if is_retrace:
    config.learner.critic_target = "retrace"
    config.adder.update({"unroll": 6, "period": 4})
    config.environment.time_limit = 5  # so that episodes end in each sequence
    config.replay.sampler = "prioritized"
  config.replay.transitions_per_item = 1
  config.network.hidden_sizes = (16, 16)
  config.learner.update({"batch_size": ITEMS, **learner})
  if critics:
    config.network.critics = critics
  return config


make_learner = collected.make_learner


def make_batch(config):
  variables = make_learner(config).get_variables()
  return collected.collect_batch(config, variables, ITEMS)


@pytest.fixture(scope="module")
def batches():
  return {name: make_batch(make_config(name)) for name in NAMES}


@pytest.fixture
def batch(batches):
  return batches["sac"]


make_update = collected.make_update


def select(values, name):
  return {key: x for key, x in values.items() if key.split("/")[0] == name}


def equal(one, other, name):
  one, other = select(one, name), select(other, name)
  assert one.keys() == other.keys() and one
  return all((one[key] == other[key]).all() for key in one)


@pytest.mark.parametrize("name", NAMES)
def test_updates_change_all_networks_and_are_equal_after_a_resume(
  batches, name, tmp_path
):
  """Their random numbers depend on the seed and the step only."""
  first, second = (make_learner(make_config(name)) for _ in range(2))
  updates, batch = [make_update(first), make_update(second)], batches[name]
  start = [collected.get_values(learner) for learner in (first, second)]
  for _ in range(2):  # TD3's policy learns in every second update
    metrics, priorities = updates[0](batch)
  after = collected.get_values(first)
  for tracked in first.checkpointed:
    assert equal(*start, tracked), tracked
    if tracked not in ("steps", "dead_units", "highest_priority"):
      assert not equal(start[0], after, tracked), tracked
  for metric, value in metrics.items():
    assert value.shape == () and np.isfinite(value), metric
  sampler = make_config(name).replay.sampler
  assert (priorities is not None) == (sampler == "prioritized")
  if priorities is not None:
    assert priorities.shape == (ITEMS,) and (priorities.numpy() > 0).all()
  for variable in first.get_variables():  # only what workers need
    assert variable.startswith((f"{policies.POLICY}/", "highest_priority"))
  collected.restore(first, second, tmp_path)
  for update in updates:
    update(batch)
  assert second.steps.numpy() == 3
  end = [collected.get_values(learner) for learner in (first, second)]
  assert all(equal(*end, tracked) for tracked in first.checkpointed)


def test_the_critics_differ_and_their_targets_start_equal():
  values = collected.get_values(make_learner(make_config(critics=3)))
  critics = select(values, "critics")
  weights = [x for x in critics.values() if x.shape == (16, 16)]
  assert len(weights) == 3
  assert all((x != weights[0]).any() for x in weights[1:])
  for key, value in critics.items():
    target = values[key.replace("critics", "target_critics")]
    np.testing.assert_array_equal(value, target)


@pytest.mark.parametrize("name", ["ddpg", "sac:cartpole"])
def test_all_weights_start_within_the_bound_of_the_initializer(name):
  config = make_config(name)
  config.network.initializer = "uniform"
  values = collected.get_values(make_learner(config))
  for network in ("policy", "critics", "target_critics"):
    weights = [x for x in select(values, network).values() if x.ndim == 2]
    assert weights
    for w in weights:
      assert 0.5 < np.abs(w).max() * np.sqrt(len(w)) <= 1


@pytest.mark.parametrize(
  "lowest, highest, nearest",
  [
    (-200.0, 1_500.0, 0.0),
    (-1_600.0, 0.0, 0.0),
    (20.0, 120.0, 20.0),
    (-np.inf, np.inf, 0.0),
  ],
)
def test_categorical_critics_start_at_the_return_nearest_to_zero(
  batches, lowest, highest, nearest
):
  config = make_config("d4pg")
  config.network.update({"lowest_return": lowest, "highest_return": highest})
  metrics, _ = make_learner(config).update(batches["d4pg"])
  width = highest - lowest
  spacing = width / (config.network.atoms - 1) if np.isfinite(width) else 1.0
  assert abs(metrics["q_mean"] - nearest) < spacing
  assert abs(-metrics["policy_loss"] - nearest) < spacing


@pytest.mark.parametrize("name", ["sac", "ddpg", "mpo"])
def test_the_steps_of_all_networks_shrink_by_the_decay(batches, name):
  changes = []
  for decay_steps in (0, 4):
    learner = make_learner(make_config(name, decay_steps=decay_steps))
    # The first factor is 1, so both learners are equal.
    learner.update(batches[name])
    before = collected.get_values(learner)
    learner.update(batches[name])
    after = collected.get_values(learner)
    changes.append({key: after[key] - before[key] for key in after})
  constant, decayed = changes
  for key, change in select(constant, "critics").items():
    np.testing.assert_allclose(decayed[key], 0.75 * change, 1e-3, 1e-6)
  # The ratio is not exact for the policy: its gradient depends on the critics,
  # whose steps differ.
  larger, smaller = (
    np.concatenate([np.ravel(x) for x in select(values, "policy").values()])
    for values in (constant, decayed)
  )
  ratio = np.linalg.norm(smaller) / np.linalg.norm(larger)
  assert ratio == pytest.approx(0.75, abs=0.05)


def test_each_network_has_its_rate(batches):
  """Adam's first step changes a weight by the rate, whatever the gradient."""
  learner = make_learner(
    make_config(
      "sac",
      learning_rate=1e-2,
      policy_learning_rate=1e-3,
      temperature_learning_rate=1e-4,
      adam_epsilon=1e-12,
    )
  )
  before = collected.get_values(learner)
  learner.update(batches["sac"])
  after = collected.get_values(learner)
  for name, rate in (("critics", 1e-2), ("policy", 1e-3)):
    for key, value in select(before, name).items():
      largest = np.abs(after[key] - value).max()
      assert largest == pytest.approx(rate, rel=1e-2), key
  (key,) = (x for x in before if x.startswith("log_temperature"))
  assert abs(after[key] - before[key]) == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize("tau", [0.0, 0.25, 1.0])
@pytest.mark.parametrize(
  ("name", "network"), [("sac", "critics"), ("ddpg", "policy")]
)
def test_targets_follow_by_tau(batches, tau, name, network):
  learner = make_learner(make_config(name, tau=tau))
  for _ in range(3):
    before = collected.get_values(learner)
    learner.update(batches[name])
    after = collected.get_values(learner)
    for key, online in select(after, network).items():
      key = key.replace(network, f"target_{network}")
      expected = (1 - tau) * before[key] + tau * online
      np.testing.assert_allclose(after[key], expected, rtol=1e-5, atol=1e-6)


def test_policy_and_targets_follow_their_periods(batches):
  config = make_config("td3", policy_period=3, target_update_period=2)
  learner = make_learner(config)
  periods = {"policy": 3, "target_policy": 2, "target_critics": 2, "critics": 1}
  variables = collected.get_values(learner)
  for name, value in select(variables, "policy").items():
    # Without this, the target policy equals the policy before its first update.
    learner.checkpointed["target_policy"].variables[
      int(name.split("/")[-1])
    ].assign(value + 1.0)
  for step in range(1, 7):
    before = collected.get_values(learner)
    learner.update(batches["td3"])
    after = collected.get_values(learner)
    for network, period in periods.items():
      assert equal(before, after, network) == (step % period != 0), network


@pytest.mark.parametrize("name", [*ALGORITHMS, "sac:minatar_breakout"])
def test_losses_of_policy_and_critics_change_only_their_own_weights(
  batches, name
):
  """In two updates, the policy learns once with period 2, never with 3."""
  results = []
  for policy_period in (2, 3):
    learner = make_learner(make_config(name, policy_period=policy_period))
    start = collected.get_values(learner)
    for _ in range(2):
      learner.update(batches[name])
    results.append(collected.get_values(learner))
  learned, constant = results
  assert not equal(start, learned, "policy")
  assert equal(start, constant, "policy")
  networks = ["critics", "target_critics", "critic_optimizer"]
  if name == "sac:minatar_breakout":
    networks.append("encoder")  # trained by the critics' loss only
  for network in networks:
    assert equal(learned, constant, network), network
    assert not equal(start, learned, network), network


def test_the_acting_policy_has_the_encoders_variables(batches):
  name = "sac:minatar_breakout"
  config, data = make_config(name), batches[name].data
  learner = make_learner(config)
  learner.update(batches[name])
  builder, spec = collected.build(config)
  declaration = builder.make_network(config, spec)
  acting = network_lib.make_acting(declaration, policies.POLICY)
  acting.load(learner.get_variables())
  tracked = learner.checkpointed
  np.testing.assert_allclose(
    acting(data.o_tm1.numpy()),
    tracked["policy"](tracked["encoder"](data.o_tm1)),
    rtol=1e-4,
    atol=1e-5,
  )


@pytest.mark.parametrize("name", ["ddpg", "mpo", "sac"])
def test_a_target_policy_sees_images_through_the_target_encoder(name):
  """SAC has no target policy, so its next actions are those of the policy."""
  config = make_config(name)
  config.environment.name = "tests.environments.toys:Pointing-v0"
  config.network.torso = "minatar_cnn"
  if name == "sac":
    config.learner.temperature = 1e-9  # hides the entropy from the targets
  batch, learner = make_batch(config), make_learner(config)
  tracked, data = learner.checkpointed, batch.data
  for key in ("target_encoder", "target_critics"):
    for variable in tracked[key].trainable_variables:
      variable.assign_add(tf.fill(variable.shape, 0.05))
  key = "policy" if name == "sac" else "target_policy"
  variables = tracked[key].get_variables()
  if name != "ddpg":  # means only, with a deviation near 0
    variables[f"{policies.POLICY}/output/w"][:, 1:] = 0.0
    variables[f"{policies.POLICY}/output/b"][1:] = -20.0
  tracked[key].load(variables)

  encoder, target_encoder = tracked["encoder"], tracked["target_encoder"]
  features_t = target_encoder(data.o_t)
  seen = encoder(data.o_t) if name == "sac" else features_t
  output = tracked[key](seen)[:, :1]
  action = output if name == "ddpg" else tf.tanh(output)
  q_t = tf.reduce_min(tracked["target_critics"](features_t, action), 1)[:, 0]
  q_tm1 = tracked["critics"](encoder(data.o_tm1), data.a_tm1)[:, :, 0]
  errors = (data.r_t + data.discount_t * q_t)[:, None] - q_tm1
  expected = tf.reduce_mean(0.5 * tf.reduce_sum(errors**2, axis=1))
  metrics, _ = learner.update(batch)
  assert float(metrics["critic_loss"]) == pytest.approx(
    float(expected), rel=1e-5
  )


def slow_mlp(variables, name, x, is_normalized):
  """Returns a two-layer MLP's output in float64.

  If `is_normalized`, the first layer has a layer norm and a tanh.
  """
  weights = {
    key.removeprefix(f"{name}/"): value.astype(float)
    for key, value in variables.items()
  }
  for i in range(2):
    layer = f"torso/linear_{i}"
    x = x @ weights[f"{layer}/w"] + weights[f"{layer}/b"]
    if is_normalized and i == 0:
      x = x - x.mean(axis=1, keepdims=True)
      x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
      x = x * weights["torso/norm_0/scale"] + weights["torso/norm_0/offset"]
      x = np.tanh(x)
    else:
      x = np.where(x > 0, x, 0.0)
  return x @ weights["output/w"] + weights["output/b"]


def slow_deterministic_loss(config, policy, critics, observation):
  """Returns minus the mean of q_0(o, pi(o)): Silver et al. 2014, theorem 1."""
  is_normalized = config.network.layer_norm == "first"
  action = np.tanh(
    slow_mlp(policy, policies.POLICY, observation, is_normalized)
  )
  inputs = np.concatenate([observation, action], axis=1)
  outputs = slow_mlp(critics, "critics/critic_0", inputs, is_normalized)
  if config.network.critic_head == "expected":
    return -outputs[:, 0].mean()
  # Barth-Maron et al. 2018, equation 4: the mean of the distribution.
  network, total = config.network, 0.0
  atoms = np.linspace(
    network.lowest_return, network.highest_return, network.atoms
  )
  for logits in outputs:
    weights = np.exp(logits - logits.max())
    total += (weights * atoms).sum() / weights.sum()
  return -total / len(outputs)


@pytest.mark.parametrize("name", ["ddpg", "td3", "d4pg"])
def test_the_deterministic_policy_gradient_equals_the_slow_one(batches, name):
  """Compares the loss, and its gradient by central differences in float64."""
  # With an epsilon far above the gradients, Adam's first step is proportional
  # to the gradient: sqrt(1 - beta_2) g rate / epsilon.
  rate, epsilon = 1e-2, 1e6
  config = make_config(
    name,
    policy_period=1,
    adam_epsilon=epsilon,
    learning_rate=rate * epsilon / np.sqrt(1e-3),
  )
  learner, batch = make_learner(config), batches[name]
  policy = learner.checkpointed["policy"].get_variables()
  metrics, _ = learner.update(batch)
  after = learner.get_variables()
  # The policy's loss uses the critics after their update.
  critics = learner.checkpointed["critics"].get_variables()
  observation = np.float64(batch.data.o_tm1)

  def loss_of(policy):
    return slow_deterministic_loss(config, policy, critics, observation)

  assert float(metrics["policy_loss"]) == pytest.approx(
    loss_of(policy), rel=1e-5
  )
  for key, value in policy.items():
    expected = np.zeros(value.shape)
    for index in np.ndindex(*value.shape):
      ends = []
      for sign in (1, -1):
        shifted = value.astype(float)
        shifted[index] += sign * 1e-6
        ends.append(loss_of({**policy, key: shifted}))
      expected[index] = (ends[0] - ends[1]) / 2e-6
    found = (value.astype(float) - after[key]) / rate
    assert (expected != 0).any()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("head", ["expected", "categorical"])
def test_targets_of_mpo_are_means_over_its_samples(batches, head):
  """With more samples, the targets of different seeds differ less."""
  spreads = []
  for samples in (2, 200):
    # With this learning rate, only the seeds of the samples change.
    config = make_config("mpo", action_samples=samples, learning_rate=1e-12)
    config.network.critic_head = head
    config.network.lowest_return = -100.0
    config.network.highest_return = 0.0
    learner = make_learner(config)
    # Otherwise categorical critics start with the same value for all actions.
    for name in ("critics", "target_critics"):
      for w in learner.checkpointed[name].trainable_variables:
        w.assign_add(0.1 * tf.random.stateless_normal(w.shape, (1, 2)))
    losses = [
      float(learner.update(batches["mpo"]).metrics["critic_loss"])
      for _ in range(6)
    ]
    spreads.append(np.std(losses))
  assert spreads[1] < 0.5 * spreads[0]


def make_constrained(config):
  """Returns MPO's improvement, and the declaration of its policy."""
  builder, spec = collected.build(config)
  policy = builder.make_network(config, spec)
  return improvement.ConstrainedImprovement(config, spec, policy), policy


def test_mpo_weights_its_samples_by_the_target_critic(batches):
  """As in Acme: the critic that learns has no influence before a copy."""
  found = []
  for factor in (1.0, -3.0):
    learner = make_learner(make_config("mpo"))
    critics = learner.checkpointed["critics"]
    critics.load({k: factor * x for k, x in critics.get_variables().items()})
    learner.update(batches["mpo"])
    found.append(collected.get_values(learner))
  assert not equal(*found, "critics")
  for name in ("policy", "temperature", "multipliers"):
    assert equal(*found, name), name


def test_mpo_keeps_temperature_and_multipliers_above_their_lowest_value(
  batches,
):
  """While a constraint holds, its multiplier falls; here all of them hold."""
  config = make_config(
    "mpo",
    temperature=1e-6,
    kl_multiplier=1e-6,
    std_kl_multiplier=1e-6,
    dual_learning_rate=1.0,
  )
  constrained, _ = make_constrained(config)
  for step in range(20):
    metrics = constrained.update(
      batches["mpo"].data.o_tm1,
      batches["mpo"].data.a_tm1,
      lambda o, a: 0.0 * a[:, 0],
      tf.constant([1, step]),
      tf.constant(1e-12),
    )
  for name in ("temperature", "kl_multiplier"):
    assert float(metrics[name]) == pytest.approx(1e-6, rel=1e-3), name


def test_mpo_moves_the_policy_to_better_actions(batches):
  """With a critic whose values rise with the action, the mode rises."""
  constrained, policy = make_constrained(
    make_config("mpo", action_samples=20, learning_rate=1e-2)
  )
  observation = batches["mpo"].data.o_tm1

  def find_mode():
    parameters = constrained.network(observation)
    return policy.head.distribution(tf_ops, parameters).mode().numpy()

  before = find_mode()
  for step in range(20):
    constrained.update(
      observation,
      batches["mpo"].data.a_tm1,
      lambda o, a: 10.0 * a[:, 0],
      tf.constant([1, step]),
      tf.constant(1.0),
    )
    constrained.follow()
  assert (find_mode() > before + 0.05).mean() > 0.9


def test_mpo_learns_without_bias_where_tanh_rounds_to_one(batches):
  """Samples of a policy, all of the same weight, don't change the policy."""
  # With an epsilon far above the gradients, Adam's first step is proportional
  # to the gradient, and here equal to it.
  epsilon, mean, log_std = 1e6, 12.0, 0.0
  constrained, _ = make_constrained(
    make_config(
      "mpo",
      action_samples=1_000,
      adam_epsilon=epsilon,
      learning_rate=epsilon / np.sqrt(1e-3),
    )
  )
  bias = f"{policies.POLICY}/output/b"
  for name in ("policy", "target_policy"):
    network = constrained.checkpointed[name]
    variables = network.get_variables()
    variables[f"{policies.POLICY}/output/w"] *= 0
    variables[bias] = np.float32([mean, log_std])
    network.load(variables)
  constrained.update(
    batches["mpo"].data.o_tm1,
    batches["mpo"].data.a_tm1,
    lambda o, a: 0.0 * a[:, 0],
    tf.constant([1, 2]),
    tf.constant(1.0),
  )
  after = constrained.network.get_variables()[bias]
  # The gradients are means of 32,000 normal samples, and of their squares.
  np.testing.assert_allclose(after, [mean, log_std], atol=0.03)


# The biases of the output: mean and log deviation, or logits. With a logit of
# 200, the probability of the other action is 0 in float32.
@pytest.mark.parametrize(
  ("name", "bias", "rises"),
  [
    ("sac", [0.0, -6.0], True),
    ("sac", [0.0, -0.3], False),
    ("sac:cartpole", [0.0, 9.0], True),
    ("sac:cartpole", [0.0, 200.0], True),
    ("sac:cartpole", [0.0, 0.0], False),
  ],
)
def test_the_temperature_moves_policies_to_their_target_entropy(
  batches, name, bias, rises
):
  config, target = make_config(name), -1.0  # nats, of one dimension
  if name == "sac:cartpole":
    config.learner.discrete_entropy, target = 0.7, 0.7 * np.log(2)
  learner = make_learner(config)
  variables = learner.get_variables()
  variables[f"{policies.POLICY}/output/b"] = np.float32(bias)
  variables[f"{policies.POLICY}/output/w"] *= 0
  learner.checkpointed["policy"].load(variables)
  before = learner.checkpointed["log_temperature"].numpy()
  metrics, _ = learner.update(batches[name])
  after = learner.checkpointed["log_temperature"].numpy()
  assert (metrics["entropy"] < target) == rises
  assert (after > before) == rises


@pytest.mark.parametrize("temperature", [0.01, 1.0])
def test_the_entropy_converges_to_its_target(batch, temperature):
  """Starts at temperatures far too low and far too high, in 1-step episodes."""
  config = make_config(temperature=temperature, learning_rate=2e-2)
  learner = make_learner(config)
  update = make_update(learner)
  action = tf.linspace([-1.0], [1.0], ITEMS)
  data = batch.data._replace(
    a_tm1=action,
    r_t=-4.0 * (action[:, 0] - 0.3) ** 2,
    discount_t=tf.zeros([ITEMS]),
  )
  batch, entropies = batch._replace(data=data), []
  for _ in range(600):
    metrics, _ = update(batch)
    entropies.append(float(metrics["entropy"]))
  # Pendulum's target is -1 nats. The estimate of one batch has an error of 0.2.
  assert abs(np.mean(entropies[:50]) + 1.0) > 0.3
  assert np.mean(entropies[-200:]) == pytest.approx(-1.0, abs=0.1)


@pytest.mark.parametrize(
  "name", ["td3", "sac:cartpole", "sac:minatar_breakout", "d4pg", "mpo"]
)
def test_the_observation_after_a_terminated_step_has_no_influence(
  batches, name
):
  batch, changed = batches[name], []
  for noise in (0.0, 2.0):
    data = batch.data._replace(
      discount_t=tf.zeros([ITEMS]),
      o_t=batch.data.o_t + tf.cast(noise, batch.data.o_t.dtype),
    )
    changed.append(batch._replace(data=data))
  one, other = collected.update_on_each(
    make_learner(make_config(name)), changed
  )
  for network in ("critics", "encoder", "policy"):
    for key, value in select(one, network).items():
      # Not exact: by rounding, probabilities do not add up to exactly 1.
      np.testing.assert_allclose(value, other[key], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["d4pg", *SEQUENCES])
def test_importance_weights_scale_the_critics_loss(batches, name):
  """A frequently sampled item has a lower weight, so the loss is lower."""
  batch, config = batches[name], make_config(name)
  config.replay.importance_exponent_start = 1.0
  probabilities = tf.constant([0.5] + [0.01] * (ITEMS - 1), tf.float64)
  losses = []
  for x in (batch.probabilities, probabilities):
    learner = make_learner(config)
    metrics, _ = learner.update(batch._replace(probabilities=x))
    losses.append(float(metrics["critic_loss"]))
  assert losses[1] < losses[0]


def test_targets_are_the_lowest_of_the_chosen_critics(batch):
  """If one of five target critics is chosen, the target depends on the seed."""
  found = set()
  for step in range(6):
    learner = make_learner(make_config(critics=5, target_critics=1, tau=0.0))
    learner.steps.assign(step)
    metrics, _ = learner.update(batch)
    found.add(round(float(metrics["critic_loss"]), 5))
  assert len(found) > 1


def test_discrete_soft_targets_and_losses_are_exact_expectations(batches):
  """Compares with Christodoulou 2019, equations 3, 4, 10 and 11, in float64."""
  batch = batches["sac:cartpole"]
  learner = make_learner(make_config("sac:cartpole", temperature=0.3, tau=0.0))
  critics, policy = (
    learner.checkpointed[name] for name in ("critics", "policy")
  )
  data = batch.data
  q_tm1, q_t = (np.float64(critics(x)) for x in (data.o_tm1, data.o_t))
  logits_tm1, logits_t = (np.float64(policy(x)) for x in (data.o_tm1, data.o_t))
  metrics, _ = learner.update(batch)

  critic_loss = errors = 0.0
  for i in range(ITEMS):
    p = np.exp(logits_t[i]) / np.exp(logits_t[i]).sum()
    value = sum(
      p[a] * (min(q_t[i, c, a] for c in range(2)) - 0.3 * np.log(p[a]))
      for a in range(2)
    )
    target = float(data.r_t[i]) + float(data.discount_t[i]) * value
    taken = [target - q_tm1[i, c, int(data.a_tm1[i])] for c in range(2)]
    critic_loss += 0.5 * sum(x**2 for x in taken) / ITEMS
    errors += sum(map(abs, taken)) / 2 / ITEMS
  assert float(metrics["critic_loss"]) == pytest.approx(critic_loss, rel=1e-4)
  assert float(metrics["td_error_abs_mean"]) == pytest.approx(errors, rel=1e-4)

  # The policy's loss uses the critics after their update.
  q_tm1 = np.float64(critics(data.o_tm1))
  policy_loss = entropy = 0.0
  for i in range(ITEMS):
    p = np.exp(logits_tm1[i]) / np.exp(logits_tm1[i]).sum()
    for a in range(2):
      lowest = min(q_tm1[i, c, a] for c in range(2))
      policy_loss += p[a] * (0.3 * np.log(p[a]) - lowest) / ITEMS
      entropy -= p[a] * np.log(p[a]) / ITEMS
  assert float(metrics["policy_loss"]) == pytest.approx(policy_loss, rel=1e-4)
  assert float(metrics["entropy"]) == pytest.approx(entropy, rel=1e-4)
