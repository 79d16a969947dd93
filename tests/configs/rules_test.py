"""Rules between config fields, of each family of algorithms that has some."""

import ast

import pytest

from slipway.agents import registry
from slipway.configs import actor_critic, base, catalog, fields, value
from tests.environments import given

# Fields that several rows share.
SHAPED = "environment.name=tests.environments.shaped:Shaped-v0"
MASKS = "environment.action_mask=True"
WORDS = {
  "SHAPED": SHAPED,
  "MASKS": MASKS,
  "MASKED": f"{SHAPED} {MASKS} environment.kwargs.masked=True",
  "POINTING": "environment.name=tests.environments.toys:Pointing-v0",
  "UNLIMITED": "network.lowest_return=-1e999 network.highest_return=1e999",
  "CARTPOLE": "environment.name=CartPole-v1",
  "EXTERNAL": "environment.external=True",
  "BITS": (
    "environment.name=tests.environments.toys:BitFlipping-v0 adder.n_step=1 "
    "replay.hindsight=future"
  ),
  "RETRACE": "learner.critic_target=retrace replay.transitions_per_item=1",
  "SHARDED": "topology.replay=own_process",
  "FOUR": "topology.replay=own_process replay.shards=4",
  "RAW": "learner.normalize_advantages=False learner.minibatch_size=1",
  "ASYNC": "topology.workers=0 mode=async",
  "NO_PROXY": "topology.proxy=False",
  "OFFLINE": "dataset.path=d",
  "MINI": "learner.minibatch_size=1",
  "EIGHT": "replay.transitions_per_item=8",
  "HEAD": "network.head=implicit_quantile",
  "MUNCHAUSEN": "learner.munchausen_scale=0.9 adder.n_step=1",
  "PRIORITIES": (
    "replay.priority_exponent=0.7 replay.importance_exponent_start=0.5 "
    "replay.importance_exponent_end=0.5"
  ),
}


def check(config):
  base.check_environment(config.environment)
  spec = given.make_spec(config.environment)
  registry.make_builder(config.agent).check(config, spec)


def table_of(config):
  spec = given.make_spec(config.environment)
  return registry.make_builder(config.agent).make_table(config, spec)


def read(text):
  """Returns the value of a text, which is a literal or a word."""
  try:
    return ast.literal_eval(text)
  except (SyntaxError, ValueError):
    return text


def make_config(text):
  """Returns the config of 'algorithm[:preset] field=value field=value ...'."""
  name, *changes = text.split()
  algorithm, _, preset = name.partition(":")
  config = catalog.algorithms()[algorithm].get_config(*filter(None, [preset]))
  for change in changes:
    field, _, new = change.partition("=")
    config = fields.replace(config, field, read(new))
  return config


def message_of(config):
  with pytest.raises(ValueError) as error:
    check(config)
  message = str(error.value)
  assert "\n" not in message
  return message


def rows(text):
  """Returns the rows of a table with columns that '|' separates."""
  return [
    [x.strip() for x in row.split("|")] for row in text.split("\n") if row
  ]


# A config whose last field has no effect, and words of the error line.
NO_EFFECT = """
ppo learner.epochs=1 learner.minibatch_size=0 learner.value_clip=0.2 | batch
ppo learner.epochs=1 learner.minibatch_size=256 learner.kl_limit=0.01 | batch
ppo learner.temperature=2.0 | config.learner.policy_loss='clipped'
ppo CARTPOLE network.distribution=tanh_gaussian | discrete actions
vmpo CARTPOLE learner.std_kl_bound=0.001 | discrete actions
dqn network.atoms=21 | config.network.head='expected'
dqn network.head=quantile network.atoms=21 | or 'categorical'
dqn network.quantiles=51 | config.network.head='expected'
dqn network.head=quantile network.cosines=32 | config.network.head='quantile'
dqn network.noisy_std=0.1 | use 0.5 for the first one, or True for the second
dqn learner.margin=0.5 | config.learner.margin_weight=0.0
dqn learner.munchausen_temperature=0.1 | use 0.03 for the first one
dqn learner.munchausen_lowest=-2.0 | config.learner.munchausen_scale=0.0
dqn replay.priority_exponent=0.7 | config.replay.sampler='uniform'
dqn replay.importance_exponent_start=0.5 | config.replay.sampler='uniform'
dqn replay.importance_exponent_end=0.5 | config.replay.sampler='uniform'
dqn exploration.ladder_base=0.5 | config.exploration.schedule='linear'
r2d2 exploration.epsilon_start=0.5 | config.exploration.schedule='ladder'
r2d2 exploration.schedule=linear exploration.ladder_exponent=6.0 | 'linear'
r2d2 replay.sampler=uniform replay.priority_exponent=0.7 | 'uniform'
r2d2 replay.sampler=uniform replay.importance_exponent_start=0.5 | 'uniform'
r2d2 replay.sampler=uniform replay.importance_exponent_end=0.5 | 'uniform'
r2d2 replay.sampler=uniform replay.eta=0.5 | config.replay.sampler='uniform'
muzero replay.priority_exponent=0.7 | config.replay.sampler='uniform'
sac learner.target_noise=0.3 | config.learner.policy_loss='soft'
sac learner.expectile=0.9 | config.learner.critic_target='n_step'
sac learner.max_weight=9.0 | config.learner.policy_loss='soft'
iql OFFLINE learner.action_samples=9 | config.learner.critic_target
iql OFFLINE learner.advantage_weight=binary learner.max_weight=9.0 | 'binary'
crr OFFLINE learner.expectile=0.9 | config.learner.critic_target='n_step'
sac learner.cql_actions=5 | config.learner.cql_weight=0.0
td3 learner.cql_weight=1.0 | config.learner.policy_loss='deterministic'
cql_sac OFFLINE CARTPOLE learner.cql_weight=1.0 | continuous actions
rebrac OFFLINE network.core_size=8 learner.target_bc_weight=0.1 | sequences
sac learner.target_bc_weight=0.1 | config.learner.policy_loss='soft'
sac learner.perturbation=0.1 | config.learner.policy_loss='soft'
bcq_continuous OFFLINE learner.target_critics=1 | 'batch_constrained'
sac learner.bc_weight=0.2 | config.learner.policy_loss='soft'
ddpg learner.target_noise_clip=0.2 | config.learner.target_noise=0.0
sac learner.discrete_entropy=0.98 | environment.name='Pendulum-v1'
sac exploration.noise_std=0.5 | config.learner.policy_loss='soft'
sac replay.priority_exponent=0.55 | config.replay.sampler='uniform'
sac network.atoms=21 | config.network.critic_head='expected'
sac exploration.random_repeats=8 | config.exploration.random_steps=0
sac bonus.weight=2.0 | config.bonus.kind='none'
sac bonus.kind=rnd bonus.forward_weight=0.5 | config.bonus.kind='rnd'
mpo RETRACE adder.n_step=6 | config.learner.critic_target='retrace'
mpo RETRACE replay.transitions_per_item=8 | learner.critic_target='retrace'
mpo adder.unroll=20 | whose items are transitions
mpo adder.period=5 | whose items are transitions
mpo learner.retrace_lambda=1.0 | config.learner.critic_target='n_step'
mpo replay.eta=0.5 | whose items are transitions
"""

# A config, and words of the error line; {} is the last field and its value.
REJECTED = """
dqn topology.workers=0 mode=single | workers=0 with config.mode='single'
r2d2 mode=sync topology.workers=0 | {} with config.mode='sync'
ppo mode=sync topology.workers=0 | {} with config.mode='sync'
sac NO_PROXY topology.workers=0 | {} with config.topology.proxy=False
dqn environment.external=True | {}, an environment without steps
iql OFFLINE limits.environment_steps=5 | {} with config.dataset.path='d' has no
cql OFFLINE limits.episodes=5 | {} with config.dataset.path='d' has no effect
bc OFFLINE rates.environment_steps_per_s=9.0 | no environment is stepped: use 0
rainbow network.lowest_return=100.0 | config.network.highest_return=100.0
rainbow network.highest_return=1000001000.0 network.lowest_return=1e9 | {}
c51:lunarlander network.highest_return=1e999 | {} is half a support
d4pg network.lowest_return=-1e999 | {} with config.network.highest_return=0
c51 UNLIMITED network.atoms=9 | {} has no effect
dqn learner.munchausen_scale=0.9 network.head=quantile | {}
sac:generic MASKED exploration.random_repeats=2 | {} would repeat
dqn replay.capacity=63 | {} is below config.learner.batch_size=64:
dqn replay.min_size=500001 | {} is above config.replay.capacity=500000:
dqn mode=sync replay.samples_per_insert=0.0 | {} is no ratio
dqn replay.shards=4 | {} needs processes
dqn replay.shards=4 | with config.topology.replay='with_trainer'
dqn SHARDED mode=single replay.shards=4 | {} is not for mode 'single'
ppo SHARDED mode=single replay.shards=2 | {} is not for mode 'single'
dqn FOUR replay.min_size=100 replay.capacity=252 | {} in 4 shards is below
r2d2 adder.period=21 | would never be learned
muzero adder.period=6 | would never be learned
muzero replay.transitions_per_item=4 | {}
r2d2 replay.transitions_per_item=4 | {}
r2d2 replay.capacity=159 | {} is below config.learner.batch_size=16:
dqn replay.transitions_per_item=5 | batch_size=64 is no multiple of {}
dqn EIGHT replay.capacity=100 replay.min_size=100 | the table could never
ppo mode=async variables.max_age=2 | {} is below 3: the rollouts of 8
ppo mode=async topology.workers=3 | config.variables.max_age=4 is below 5:
ppo network.core_size=8 network.shared=True adder.unroll=96 | {}
ppo network.core=gru | network.core
sac network.core=gru | network.core_size
td3 adder.burn_in=5 | network.core_size
sac network.core_size=8 replay.transitions_per_item=2 | items are sequences
sac network.core_size=8 adder.period=11 | would never be learned
sac bonus.kind=rnd adder.n_step=1 network.core_size=8 | {}
dqn learner.weight_decay=0.1 | learner.optimizer
dqn replay.hindsight=final replay.hindsight_goals=2 | replay.hindsight
sac replay.hindsight_goals=8 | replay.hindsight
ppo learner.optimizer=sgd learner.adam_epsilon=0.1 | learner.adam_epsilon
sac learner.schedule=cosine | learner.decay_steps
td3 learner.temperature_learning_rate=0.1 | learner.policy_loss
ppo network.core_size=8 network.core_window=4 | network.core_window
r2d2 network.core=attention network.core_size=6 | {} can't be divided
ppo adder.unroll=2048 network.core_size=8 | adder.unroll=2048 with {}
ppo MINI | config.learner.normalize_advantages=True compares the advantages
ppo RAW learner.policy_loss=vmpo | {} compares the advantages
ppo learner.minibatch_size=100 | {} does not divide the 256 steps
ppo network.torso=nature_cnn | {}
dqn network.torso=nature_cnn | {}
dqn environment.name=Pendulum-v1 | {} takes float32 [1]
dqn:pong normalization.observations=True | {}
dqn:pong normalization.observations=True | uint8 [4, 84, 84]
dqn replay.sampler=prioritized normalization.rewards=True | {}
dqn replay.sampler=prioritized normalization.rewards=True | 'prioritized'
dqn MASKED adder.stacked_frames=2 | without the action masks
sac SHAPED environment.kwargs.action=multi_discrete | 2 x 4 x 3 discrete actions
td3 MASKED | 4 discrete actions
ppo bonus.kind=rnd normalization.rewards=True | {}
ppo bonus.kind=rnd network.core_size=8 | {}
ppo bonus.kind=rnd adder.discount=1.0 | {}
sac bonus.kind=icm adder.discount=1.0 | {}
impala learner.max_c=1.5 | {} is above config.learner.max_rho=1.0
impala learner.max_rho=0.5 | max_c=1.0 is above config.learner.max_rho=0.5
dqn bonus.kind=icm adder.n_step=3 | {}
dqn bonus.kind=rnd adder.n_step=2 | {}
sac bonus.kind=rnd adder.n_step=5 | {}
tqc learner.dropped_quantiles=25 | leaves none of
tqc learner.policy_loss=constrained | takes one next action
tqc environment.name=CartPole-v1 | is for continuous actions
sac learner.dropped_quantiles=3 | network.critic_head
sac learner.target_critics=3 | {} is more than config.network.critics=2
d4pg exploration.lowest_noise_std=0.5 | {} is above
sac learner.policy_loss=deterministic environment.name=CartPole-v1 | {}
sac CARTPOLE learner.policy_loss=deterministic | takes continuous ones
sac CARTPOLE network.critic_head=categorical | {} is for continuous actions
sac replay.capacity=127 | {} is below config.learner.batch_size=128:
d4pg RETRACE | learner.critic_target='retrace' needs the probabilities
mpo RETRACE network.critic_head=categorical | {} learns distributions
sac RETRACE environment.name=CartPole-v1 | {} has discrete ones
mpo RETRACE adder.period=11 | would never be learned
mpo RETRACE replay.capacity=639 | {} is below config.learner.batch_size=64:
mpo learner.temperature=1e-09 | {} is below 1e-06, the lowest one
iql | config.dataset.path='' names no folder
td3_bc | config.dataset.path='' names no folder
rebrac | config.dataset.path='' names no folder
bcq | config.dataset.path='' names no folder
bcq OFFLINE learner.munchausen_scale=0.9 | {} expects all actions
cql_sac | config.dataset.path='' names no folder
crr | config.dataset.path='' names no folder
bcq_continuous | config.dataset.path='' names no folder
bcq_continuous OFFLINE network.critic_head=categorical | {}: use 'expected'
bcq_continuous OFFLINE network.core_size=8 | {}: use 0
bcq_continuous OFFLINE POINTING network.torso=minatar_cnn | flat observations
bcq_continuous OFFLINE CARTPOLE | takes continuous ones
crr OFFLINE network.critic_head=quantile | takes one next action
iql network.critic_head=categorical | learns state values
iql learner.policy_loss=soft | learns state values
dqn BITS adder.n_step=15 | {}
dqn BITS adder.stacked_frames=4 | {} with config.replay.hindsight='future'
dqn BITS normalization.rewards=True | {} with config.replay.hindsight='future'
dqn BITS replay.sampler=prioritized | config.replay.hindsight='future'
dqn BITS environment.name=CartPole-v1 | lacks goals for config.replay.hindsight
dqn BITS ASYNC EXTERNAL | {} with config.replay.hindsight='future'
sac replay.hindsight=final network.core_size=8 | {}
sac RETRACE replay.hindsight=final | learner.critic_target='retrace' with
bc topology.workers=1 | {} with config.agent='bc'
dqn MASKS environment.frame_skip=4 | {} repeats each action, but the masks
ppo MASKS environment.frame_skip=4 | {} repeats each action, but the masks
r2d2 MASKS environment.frame_skip=4 | {} repeats each action, but the masks
sac MASKS environment.frame_skip=4 | {} repeats each action, but the masks
bc MASKS environment.frame_skip=4 | {} repeats each action, but the masks
bc | config.dataset.path='' names no folder
cql | config.dataset.path='' names no folder
cql mode=single | config.dataset.path='' names no folder
dqn dataset.path=d | config.topology.workers=1 with config.dataset.path='d'
rainbow topology.workers=0 dataset.path=d | replay.sampler='prioritized' with
sac:halfcheetah topology.workers=0 dataset.path=d | limits.trainer_steps=0 with
dqfd | config.dataset.path='' names no folder
dqn learner.margin_weight=1.0 | config.dataset.path='' names no folder
dqn dataset.ratio=0.5 | config.dataset.path='' names no folder
mpo RETRACE dataset.path=d dataset.ratio=0.5 | learner.critic_target='retrace'
dqn dataset.path=d dataset.ratio=0.999 | is 64 recorded items and 0 new ones
"""


def expand(text):
  return " ".join(WORDS.get(word, word) for word in text.split())


@pytest.mark.parametrize(
  ("text", "words"),
  [(text, f"{{}} has no effect with | {x}") for text, x in rows(NO_EFFECT)]
  + rows(REJECTED),
)
def test_fields_that_cannot_be_combined(text, words):
  text = expand(text)
  field, _, new = text.split()[-1].partition("=")
  message = message_of(make_config(text))
  for part in words.format(f"config.{field}={read(new)!r}").split(" | "):
    assert part in message


# Fields that have an effect, and values that just fit.
ACCEPTED = """
dqn network.head=categorical network.atoms=21
ddpg learner.target_noise=0.1 learner.target_noise_clip=0.2
sac CARTPOLE learner.discrete_entropy=0.98
sac learner.cql_weight=1.0 learner.cql_actions=5
iql topology.workers=1 learner.expectile=0.9 learner.max_weight=50.0
crr topology.workers=1 CARTPOLE learner.advantage_weight=binary
rebrac topology.workers=1 adder.n_step=3
bcq topology.workers=1
ppo environment.name=Pendulum-v1 network.distribution=tanh_gaussian
vmpo environment.name=Pendulum-v1 learner.std_kl_bound=0.001
dqn network.head=quantile network.quantiles=51
dqn HEAD network.quantiles=51 network.cosines=32 learner.double=True
dqn MUNCHAUSEN learner.munchausen_temperature=0.1
dqn MUNCHAUSEN learner.munchausen_lowest=-2.0
rainbow network.noisy_std=0.1 exploration.epsilon_start=0.5 PRIORITIES
r2d2 replay.eta=0.5 PRIORITIES
r2d2 exploration.ladder_base=0.5 exploration.ladder_exponent=6.0
dqn network.lowest_return=200.0
c51 UNLIMITED
rainbow normalization.rewards=True
dqn replay.capacity=64 replay.min_size=64
dqn replay.min_size=50000
dqn replay.samples_per_insert=0.0
dqn BITS
dqn dataset.path=d dataset.ratio=0.5
rainbow dataset.path=d dataset.ratio=0.25 topology.workers=0
dqn BITS network.head=categorical replay.sampler=prioritized
dqn FOUR
dqn FOUR replay.capacity=255 replay.min_size=100
"""


@pytest.mark.parametrize("text", [text for (text,) in rows(ACCEPTED)])
def test_fields_that_have_an_effect_and_fit(text):
  check(make_config(expand(text)))


# min_size, samples_per_insert, tolerance. The limiter counts in doubles, so it
# would never reach or leave the resulting bounds.
@pytest.mark.parametrize(
  ("min_size", "ratio", "tolerance"),
  [
    (1_000, 1e300, 0.5),
    (1_000, 1e307, 0.5),  # above the largest double
    (1_000, 8.0, 1e200),
    (1_000, 2.0**50, 0.5),
  ],
)
def test_a_limiter_that_blocks_for_ever(min_size, ratio, tolerance):
  config = catalog.algorithms()["dqn"].get_config()
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
    f"dqn replay.tolerance={tolerance} replay.min_size={min_size} "
    f"replay.samples_per_insert={ratio} learner.batch_size={batch_size}"
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
  spec = given.make_spec(config.environment)
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
