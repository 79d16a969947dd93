"""Rules between config fields, of each family of algorithms that has some."""

import pytest

from slipway.agents import registry
from slipway.configs import (
  actor_critic,
  base,
  bc,
  catalog,
  d4pg,
  ddpg,
  dqn,
  fields,
  mpo,
  ppo,
  r2d2,
  rainbow,
  sac,
  value,
)
from slipway.environments import factory

CONFIGS = {
  "bc": bc,
  "d4pg": d4pg,
  "ddpg": ddpg,
  "dqn": dqn,
  "mpo": mpo,
  "ppo": ppo,
  "r2d2": r2d2,
  "rainbow": rainbow,
  "sac": sac,
}
RETRACE = {
  "learner__critic_target": "retrace",
  "replay__transitions_per_item": 1,
}


def check(config):
  base.check_environment(config.environment)
  spec = factory.make_spec(config.environment)
  registry.make_builder(config.agent).check(config, spec)


def table_of(config):
  spec = factory.make_spec(config.environment)
  return registry.make_builder(config.agent).make_table(config, spec)


def make_config(agent="dqn", **changes):
  config = CONFIGS[agent].get_config()
  config.update_from_flattened_dict(
    {name.replace("__", "."): value for name, value in changes.items()}
  )
  return config


def message_of(config):
  with pytest.raises(ValueError) as error:
    check(config)
  message = str(error.value)
  assert "\n" not in message
  return message


# agent, changed fields, words that the error line must contain
REJECTED = [
  (
    "dqn",
    {"topology__workers": 0, "mode": "single"},
    "workers=0 with config.mode='single'",
  ),
  (
    "r2d2",
    {"topology__workers": 0, "mode": "sync"},
    "workers=0 with config.mode='sync'",
  ),
  (
    "rainbow",
    {"network__lowest_return": 100.0},
    "config.network.highest_return=100.0",
  ),
  (
    "rainbow",
    {"network__lowest_return": 1e9, "network__highest_return": 1e9 + 1e3},
    "1000001000.0",
  ),
  (
    "dqn",
    {"learner__munchausen_scale": 0.9, "network__head": "quantile"},
    "config.network.head='quantile'",
  ),
  (
    "dqn",
    {"replay__capacity": 63},
    "config.replay.capacity=63 is below config.learner.batch_size=64: ",
  ),
  (
    "dqn",
    {"replay__min_size": 500_001},
    "config.replay.min_size=500001 is above config.replay.capacity=500000: ",
  ),
  (
    "dqn",
    {"mode": "sync", "replay__samples_per_insert": 0.0},
    "config.replay.samples_per_insert=0.0 is no ratio",
  ),
  (
    "dqn",
    {"replay__shards": 4},
    "config.replay.shards=4 needs processes of their own, but with "
    "config.topology.replay='with_trainer' ",
  ),
  (
    "dqn",
    {
      "replay__shards": 4,
      "topology__replay": "own_process",
      "mode": "single",
    },
    "config.replay.shards=4 is not for mode 'single'",
  ),
  (
    "dqn",
    {
      "replay__shards": 4,
      "topology__replay": "own_process",
      "replay__capacity": 252,
      "replay__min_size": 100,
    },
    "config.replay.capacity=252 in 4 shards is below "
    "config.learner.batch_size=64: ",
  ),
  (
    "ppo",
    {"learner__epochs": 1, "learner__minibatch_size": 0}
    | {"learner__value_clip": 0.2},
    "config.learner.value_clip=0.2 has no effect with one gradient step per "
    "batch",
  ),
  (
    "ppo",
    {"learner__epochs": 1, "learner__minibatch_size": 256}
    | {"learner__kl_limit": 0.01},
    "config.learner.kl_limit=0.01 has no effect with one gradient step per "
    "batch",
  ),
  (
    "dqn",
    {"network__atoms": 21},
    "config.network.atoms=21 has no effect with "
    "config.network.head='expected', so the run would ignore it: use 51 for "
    "the first one, or 'categorical' for the second",
  ),
  (
    "dqn",
    {"network__head": "quantile", "network__atoms": 21},
    "config.network.atoms=21 has no effect with",
  ),
  (
    "dqn",
    {"network__quantiles": 51},
    "config.network.quantiles=51 has no effect with",
  ),
  (
    "dqn",
    {"network__head": "quantile", "network__cosines": 32},
    "config.network.cosines=32 has no effect with",
  ),
  (
    "dqn",
    {"network__noisy_std": 0.1},
    "config.network.noisy_std=0.1 has no effect with "
    "config.network.noisy=False, so the run would ignore it: use 0.5 for the "
    "first one, or True for the second",
  ),
  (
    "dqn",
    {"learner__munchausen_temperature": 0.1},
    "config.learner.munchausen_temperature=0.1 has no effect with "
    "config.learner.munchausen_scale=0.0, so the run would ignore it: use 0.03 "
    "for the first one, or a value above 0 for the second",
  ),
  (
    "dqn",
    {"learner__munchausen_lowest": -2.0},
    "config.learner.munchausen_lowest=-2.0 has no effect with",
  ),
  (
    "dqn",
    {"replay__priority_exponent": 0.7},
    "config.replay.priority_exponent=0.7 has no effect with "
    "config.replay.sampler='uniform'",
  ),
  (
    "dqn",
    {"replay__importance_exponent_start": 0.5},
    "config.replay.importance_exponent_start=0.5 has no effect with",
  ),
  (
    "dqn",
    {"replay__importance_exponent_end": 0.5},
    "config.replay.importance_exponent_end=0.5 has no effect with",
  ),
  (
    "dqn",
    {"exploration__ladder_base": 0.5},
    "config.exploration.ladder_base=0.5 has no effect with "
    "config.exploration.schedule='linear'",
  ),
  (
    "r2d2",
    {"exploration__epsilon_start": 0.5},
    "config.exploration.epsilon_start=0.5 has no effect with "
    "config.exploration.schedule='ladder'",
  ),
  (
    "r2d2",
    {"exploration__schedule": "linear", "exploration__ladder_exponent": 6.0},
    "config.exploration.ladder_exponent=6.0 has no effect with",
  ),
  (
    "r2d2",
    {"replay__sampler": "uniform", "replay__priority_exponent": 0.7},
    "config.replay.priority_exponent=0.7 has no effect with",
  ),
  (
    "r2d2",
    {"replay__sampler": "uniform", "replay__importance_exponent_start": 0.5},
    "config.replay.importance_exponent_start=0.5 has no effect with",
  ),
  (
    "r2d2",
    {"replay__sampler": "uniform", "replay__importance_exponent_end": 0.5},
    "config.replay.importance_exponent_end=0.5 has no effect with",
  ),
  (
    "r2d2",
    {"replay__sampler": "uniform", "replay__eta": 0.5},
    "config.replay.eta=0.5 has no effect with",
  ),
  ("r2d2", {"adder__period": 21}, "would never be learned"),
  (
    "r2d2",
    {"replay__transitions_per_item": 4},
    "config.replay.transitions_per_item=4",
  ),
  (
    "r2d2",
    {"replay__capacity": 159},  # fits 15 sequences, 10 steps apart
    "config.replay.capacity=159 is below config.learner.batch_size=16: ",
  ),
  (
    "dqn",
    {"replay__transitions_per_item": 5},
    "config.learner.batch_size=64 is no multiple of "
    "config.replay.transitions_per_item=5",
  ),
  (
    "dqn",  # fits 12 items of 8 transitions; 13 must precede the first batch
    {
      "replay__transitions_per_item": 8,
      "replay__capacity": 100,
      "replay__min_size": 100,
    },
    "the table could never",
  ),
  (
    "ppo",
    {"topology__workers": 0, "mode": "sync"},
    "config.topology.workers=0 with config.mode='sync'",
  ),
  (
    "ppo",
    {"mode": "async", "variables__max_age": 2},
    "config.variables.max_age=2 is below 3: the rollouts of 8 environments",
  ),
  (
    "ppo",
    {"mode": "async", "topology__workers": 3},
    "config.variables.max_age=4 is below 5: the rollouts of 24 environments",
  ),
  (
    "ppo",
    {"learner__temperature": 2.0},
    "config.learner.temperature=2.0 has no effect with "
    "config.learner.policy_loss='clipped'",
  ),
  (
    "ppo",
    {"network__lstm_size": 8, "network__shared": True, "adder__unroll": 96},
    "config.learner.minibatch_size=256 has no whole rollouts of "
    "config.adder.unroll=96",
  ),
  (
    "ppo",
    {"network__lstm_size": 8, "adder__unroll": 2_048},
    "config.adder.unroll=2048 with config.network.lstm_size=8",
  ),
  (
    "ppo",
    {"learner__minibatch_size": 1},
    "config.learner.normalize_advantages=True compares the advantages",
  ),
  (
    "ppo",
    {
      "learner__policy_loss": "vmpo",
      "learner__normalize_advantages": False,
      "learner__minibatch_size": 1,
    },
    "config.learner.policy_loss='vmpo' compares the advantages",
  ),
  (
    "ppo",
    {"learner__minibatch_size": 100},
    "config.learner.minibatch_size=100 does not divide the 256 steps",
  ),
  (
    "ppo",
    {"replay__shards": 2, "topology__replay": "own_process", "mode": "single"},
    "config.replay.shards=2 is not for mode 'single'",
  ),
  (
    "ppo",
    {"network__torso": "nature_cnn"},
    "config.network.torso='nature_cnn'",
  ),
  (
    "sac",
    {"topology__workers": 0, "topology__proxy": False},
    "config.topology.workers=0 with config.topology.proxy=False",
  ),
  (
    "dqn",
    {"environment__external": True},
    "with config.environment.external=True, an environment without steps",
  ),
  (
    "sac",
    {"learner__target_critics": 3},
    "config.learner.target_critics=3 is more than config.network.critics=2",
  ),
  (
    "sac",
    {"learner__target_noise": 0.2},
    "config.learner.target_noise=0.2 has no effect with",
  ),
  (
    "ddpg",
    {"learner__target_noise_clip": 0.2},
    "config.learner.target_noise_clip=0.2 has no effect with "
    "config.learner.target_noise=0.0",
  ),
  (
    "sac",
    {"learner__discrete_entropy": 0.98},
    "config.learner.discrete_entropy=0.98 has no effect with the continuous "
    "actions of config.environment.name='Pendulum-v1', so the run would ignore "
    "it: use 0.5",
  ),
  (
    "sac",
    {"exploration__noise_std": 0.5},
    "config.exploration.noise_std=0.5 has no effect with",
  ),
  (
    "sac",
    {"replay__priority_exponent": 0.5},
    "config.replay.priority_exponent=0.5 has no effect with",
  ),
  (
    "sac",
    {"network__atoms": 21},
    "config.network.atoms=21 has no effect with "
    "config.network.critic_head='expected'",
  ),
  (
    "d4pg",
    {"exploration__lowest_noise_std": 0.5},
    "config.exploration.lowest_noise_std=0.5 is above",
  ),
  (
    "sac",
    {
      "environment__name": "CartPole-v1",
      "learner__policy_loss": "deterministic",
    },
    "config.environment.name='CartPole-v1' has 2 discrete actions, but "
    "config.learner.policy_loss='deterministic' takes continuous ones",
  ),
  (
    "sac",
    {"environment__name": "CartPole-v1", "network__critic_head": "categorical"},
    "config.network.critic_head='categorical' is for continuous actions",
  ),
  (
    "sac",
    {"replay__capacity": 127},
    "config.replay.capacity=127 is below config.learner.batch_size=128: ",
  ),
  (
    "d4pg",
    RETRACE,
    "config.learner.critic_target='retrace' needs the probabilities of "
    "actions, which the policy of config.learner.policy_loss='deterministic'",
  ),
  (
    "mpo",
    {**RETRACE, "network__critic_head": "categorical"},
    "config.network.critic_head='categorical' learns distributions",
  ),
  (
    "sac",
    {**RETRACE, "environment__name": "CartPole-v1"},
    "config.learner.critic_target='retrace' is for continuous actions, but "
    "config.environment.name='CartPole-v1' has discrete ones",
  ),
  (
    "mpo",
    {**RETRACE, "adder__n_step": 6},
    "config.adder.n_step=6 has no effect with "
    "config.learner.critic_target='retrace'",
  ),
  (
    "mpo",
    {**RETRACE, "replay__transitions_per_item": 8},
    "config.replay.transitions_per_item=8 has no effect with",
  ),
  ("mpo", {**RETRACE, "adder__period": 11}, "would never be learned"),
  (
    "mpo",  # fits 63 sequences, which start 10 steps apart
    {**RETRACE, "replay__capacity": 639},
    "config.replay.capacity=639 is below config.learner.batch_size=64: ",
  ),
  (
    "mpo",
    {"adder__unroll": 20},
    "config.adder.unroll=20 has no effect with "
    "config.learner.critic_target='n_step'",
  ),
  (
    "mpo",
    {"adder__period": 5},
    "config.adder.period=5 has no effect with",
  ),
  (
    "mpo",
    {"learner__retrace_lambda": 1.0},
    "config.learner.retrace_lambda=1.0 has no effect with",
  ),
  (
    "mpo",
    {"learner__temperature": 1e-9},
    "config.learner.temperature=1e-09 is below 1e-06, the lowest one that "
    "config.learner.policy_loss='constrained' learns",
  ),
  (
    "mpo",
    {"replay__eta": 0.5},
    "config.replay.eta=0.5 has no effect with",
  ),
  (
    "bc",
    {"topology__workers": 1},
    "config.topology.workers=1 with config.agent='bc'",
  ),
  *(
    (
      agent,
      {"environment__action_mask": True, "environment__frame_skip": 4},
      "config.environment.frame_skip=4 repeats each action, but the masks of "
      "config.environment.action_mask=True may forbid it",
    )
    for agent in ("dqn", "ppo", "r2d2", "sac", "bc")
  ),
  ("bc", {}, "config.dataset.path='' names no folder"),
  ("bc", {"dataset__path": "no/folder"}, "'no/folder', which does not exist"),
]


@pytest.mark.parametrize(("agent", "changes", "line"), REJECTED)
def test_fields_that_cannot_be_combined(agent, changes, line):
  assert line in message_of(make_config(agent, **changes))


@pytest.mark.parametrize(
  ("agent", "changes"),
  [
    ("dqn", {"network__head": "categorical", "network__atoms": 21}),
    (
      "ddpg",
      {"learner__target_noise": 0.1, "learner__target_noise_clip": 0.2},
    ),
    (
      "sac",
      {"environment__name": "CartPole-v1", "learner__discrete_entropy": 0.98},
    ),
    ("dqn", {"network__head": "quantile", "network__quantiles": 51}),
    (
      "dqn",
      {
        "network__head": "implicit_quantile",
        "network__quantiles": 51,
        "network__cosines": 32,
        "learner__double": True,
      },
    ),
    (
      "dqn",
      {
        "learner__munchausen_scale": 0.9,
        "learner__munchausen_temperature": 0.1,
        "learner__munchausen_lowest": -2.0,
        "adder__n_step": 1,
      },
    ),
    (
      "rainbow",
      {
        "network__noisy_std": 0.1,
        "replay__priority_exponent": 0.7,
        "replay__importance_exponent_start": 0.5,
        "replay__importance_exponent_end": 0.5,
        "exploration__epsilon_start": 0.5,
      },
    ),
    (
      "r2d2",
      {
        "replay__priority_exponent": 0.7,
        "replay__importance_exponent_start": 0.5,
        "replay__importance_exponent_end": 0.5,
        "replay__eta": 0.5,
        "exploration__ladder_base": 0.5,
        "exploration__ladder_exponent": 6.0,
      },
    ),
    # Without a categorical head there are no atoms.
    ("dqn", {"network__lowest_return": 200.0}),
  ],
)
def test_fields_that_have_an_effect(agent, changes):
  check(make_config(agent, **changes))


@pytest.mark.parametrize(
  "changes",
  [
    {"replay__capacity": 64, "replay__min_size": 64},
    {"replay__min_size": 50_000},
    {"replay__samples_per_insert": 0.0},
    {"replay__shards": 4, "topology__replay": "own_process"},
    {
      "replay__shards": 4,
      "topology__replay": "own_process",
      "replay__capacity": 255,
      "replay__min_size": 100,
    },
  ],
)
def test_values_that_just_fit(changes):
  check(make_config(**changes))


# min_size, samples_per_insert, tolerance. The limiter counts in doubles, so it
# would never reach or leave the resulting bounds.
BLOCKED = [
  (1_000, 1e300, 0.5),
  (1_000, 1e307, 0.5),  # above the largest double
  (1_000, 8.0, 1e200),
  (1_000, 2.0**50, 0.5),
]


@pytest.mark.parametrize(("min_size", "ratio", "tolerance"), BLOCKED)
def test_a_limiter_that_blocks_for_ever(min_size, ratio, tolerance):
  config = dqn.get_config()
  config.replay.update(
    min_size=min_size, samples_per_insert=ratio, tolerance=tolerance
  )
  message = message_of(config)
  assert message.startswith(f"config.replay.samples_per_insert={ratio!r} ")
  assert "it would block for ever" in message


@pytest.mark.parametrize(
  ("tolerance", "min_size", "ratio", "batch_size", "expected"),
  [
    (0.5, 1_000, 8.0, 64, 4_000.0),
    # The samples of two inserts. With less, inserts and samples could both
    # block.
    (0.1, 1, 8.0, 1, 16.0),
    (0.1, 1, 0.25, 1, 2.0),  # two samples
    # Half of the distance between the bounds, which is a batch, the samples of
    # one insert, and 1 for rounding.
    (0.1, 1, 8.0, 64, 36.5),
  ],
)
def test_the_drift_of_a_ratio_is_bounded_on_both_sides(
  tolerance, min_size, ratio, batch_size, expected
):
  config = make_config(
    replay__tolerance=tolerance,
    replay__min_size=min_size,
    replay__samples_per_insert=ratio,
    learner__batch_size=batch_size,
  )
  found = table_of(config).limiter
  assert found.max_diff == ratio * min_size + expected
  assert found.min_diff == ratio * min_size - expected


def each_ratio():
  return [
    (name, preset)
    for name, module in catalog.algorithms().items()
    for preset in module.PRESETS
    if "replay" in (config := module.get_config(preset))
    and "tolerance" in config.replay
  ]


# Fields that select a component of an algorithm, with their values.
COMPARED = {
  "network.head": value.HEADS,
  "network.noisy": (False, True),
  "learner.munchausen_scale": (0.0,),
  "replay.sampler": ("uniform", "prioritized"),
  "exploration.schedule": ("linear", "ladder"),
  "network.critic_head": actor_critic.HEADS,
}


@pytest.mark.parametrize(("name", "preset"), each_ratio())
def test_a_component_of_a_preset_is_replaced_by_one_field(name, preset):
  module = catalog.algorithms()[name]
  config = module.get_config(preset)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  for field, values in COMPARED.items():
    for component in values if fields.get(config, field) is not None else ():
      changed = module.get_config(preset)
      changed.update_from_flattened_dict({field: component})
      try:
        builder.check(changed, spec)
      except ValueError as error:  # these components can't be combined
        assert "has no effect" not in str(error)


@pytest.mark.parametrize(("name", "preset"), each_ratio())
def test_the_tolerance_of_each_preset_bounds_the_drift(name, preset):
  config = catalog.algorithms()[name].get_config(preset)
  table = table_of(config)
  drift = config.replay.tolerance * table.min_size * table.samples_per_insert
  middle = table.min_size * table.samples_per_insert
  assert table.limiter.max_diff == middle + drift
