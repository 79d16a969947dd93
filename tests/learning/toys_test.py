"""Toys: algorithms learn the toy tasks that they can solve, and only those.

Each run has one process and a fixed seed, so it is reproducible on one kind of
CPU.
"""

import numpy as np
import pytest

from slipway.agents import registry
from slipway.agents.networks import heads, q_network
from slipway.agents.networks import network as network_lib
from slipway.configs import catalog
from slipway.environments import factory, recorder
from slipway.launch.runs import best_variables, run_folder
from tests.environments import given, toys

pytestmark = [pytest.mark.learning, pytest.mark.timeout(600)]

# Values of all runs, by field. Fields that a family doesn't have are left out.
_SMALL = {
  "topology.workers": 1,
  "topology.environments_per_worker": 8,
  "network.lowest_return": -2.0,
  "network.highest_return": 4.0,
  "replay.min_size": 500,
  "exploration.decay_steps": 5_000,
}
# Trainer steps between two evaluations, if not 250. A trainer step of a
# policy-gradient algorithm takes a batch of rollouts, which differs in size.
_PERIODS = {
  "a2c": 50,
  "appo": 10,
  "impala": 50,
  "ppo": 10,
  "reinforce": 2,
  "vmpo": 10,
}


@pytest.fixture
def learn(train):
  """Returns a function that trains an algorithm on a toy environment.

  The function returns the run's summary.
  """

  def learn(algorithm, toy, *flags):
    agent = catalog.algorithms()[algorithm].get_config().agent
    known = registry.make_builder(agent).fields
    period = _PERIODS.get(algorithm, 250)
    return train(
      f"--config=configs/{algorithm}.py:cartpole",
      f"--config.environment.name=tests.environments.toys:{toy}-v0",
      "--mode=single",
      f"--config.evaluation.period_steps={period}",
      *(f"--config.{x}={value}" for x, value in _SMALL.items() if x in known),
      *flags,
    )

  return learn


# Algorithms for recorded episodes or continuous actions have their own tests.
@pytest.mark.parametrize(
  "algorithm",
  [
    name
    for name, module in catalog.algorithms().items()
    if "cartpole" in module.PRESETS
    and module.get_config().topology.workers
    and name != "dqfd"
  ],
)
def test_all_learn_catch(learn, algorithm):
  summary = learn(
    algorithm,
    "Catch",
    "--config.limits.target_return=0.95",
    "--config.limits.environment_steps=200_000",  # A2C takes 130,000
  )
  assert summary["stopped_because"] == "target_return"


@pytest.mark.parametrize(
  ("algorithm", "scale"), [("c51", 0.1), ("rainbow", 1e4)]
)
def test_returns_of_any_size_are_learned_without_a_support(
  learn, algorithm, scale
):
  summary = learn(
    algorithm,
    "Catch",
    "--config.network.lowest_return=-inf",
    "--config.network.highest_return=inf",
    f"--config.environment.reward_scale={scale}",
    "--config.limits.target_return=0.95",
    "--config.limits.environment_steps=100_000",
  )
  assert summary["stopped_because"] == "target_return"


@pytest.mark.parametrize("algorithm", ["ddpg", "td3", "sac"])
def test_policies_share_the_critics_view_of_images(train, algorithm):
  summary = train(
    f"--config={algorithm}:pendulum",
    "--config.environment.name=tests.environments.toys:Pointing-v0",
    "--config.network.torso=minatar_cnn",
    "--config.network.hidden_sizes=(64,)",
    # Without layer normalization, DDPG's policy soon ignores the image.
    "--config.network.layer_norm=first",
    "--config.learner.learning_rate=3e-4",
    "--config.adder.discount=0.9",
    "--mode=single",
    # A policy that ignores the image has a return of -5.6.
    "--config.limits.target_return=-2.0",
    "--config.limits.environment_steps=30_000",
  )
  assert summary["stopped_because"] == "target_return"


@pytest.mark.parametrize(
  ("algorithm", "distribution"),
  [
    ("a2c", "gaussian"),
    ("ppo", "gaussian"),
    ("appo", "conditional_gaussian"),
    ("vmpo", "tanh_gaussian"),
  ],
)
def test_policies_of_continuous_actions_learn_to_point(
  learn, algorithm, distribution
):
  summary = learn(
    algorithm,
    "Pointing",
    f"--config.network.distribution={distribution}",
    "--config.adder.discount=0.9",
    # A policy that ignores the image has a return of -5.6.
    "--config.limits.target_return=-3.0",
    "--config.limits.environment_steps=100_000",
  )
  assert summary["stopped_because"] == "target_return"


MEMORY = (
  "--config.evaluation.episodes=100",
  "--config.limits.target_return=0.95",
  "--config.limits.environment_steps=100_000",
)


@pytest.mark.parametrize("core", ["lstm", "gru", "attention"])
def test_r2d2_remembers(learn, core):
  summary = learn(
    "r2d2", "MemoryChain", *MEMORY, f"--config.network.core={core}"
  )
  assert summary["stopped_because"] == "target_return"


@pytest.mark.parametrize(
  ("algorithm", "shared", "core"),
  [
    ("impala", True, "lstm"),
    ("ppo", True, "gru"),
    ("ppo", True, "attention"),
    ("ppo", False, "lstm"),
    ("vmpo", True, "lstm"),
  ],
)
def test_recurrent_policies_remember(learn, algorithm, shared, core):
  summary = learn(
    algorithm,
    "MemoryChain",
    *MEMORY,
    f"--config.network.core={core}",
    "--config.network.core_size=32",
    f"--config.network.shared={shared}",
  )
  assert summary["stopped_because"] == "target_return"


def test_an_actor_critic_remembers(learn):
  summary = learn(
    "sac:cartpole",
    "MemoryChain",
    *MEMORY,
    "--config.network.core=gru",
    "--config.network.core_size=32",
    "--config.learner.batch_size=16",
    "--config.adder.burn_in=0",
    "--config.adder.unroll=20",
    "--config.replay.samples_per_insert=16",
  )
  assert summary["stopped_because"] == "target_return"


# Flags by algorithm. With PPO's batches of 8 x 32 steps, or with a KL bound of
# 0.01, V-MPO forgets what it has learned.
WITHOUT_VELOCITIES = {
  "ppo": (),
  "vmpo": (
    "--config.topology.environments_per_worker=16",
    "--config.learner.batch_size=16",
    "--config.adder.unroll=64",
    "--config.learner.normalize_advantages",
    "--config.learner.kl_bound=0.003",
    "--config.learner.decay_steps=290",
    "--config.evaluation.period_steps=5",
  ),
}


@pytest.mark.parametrize(
  ("algorithm", "core"), [("ppo", "lstm"), ("ppo", "gru"), ("vmpo", "lstm")]
)
def test_a_recurrent_policy_infers_velocities(learn, algorithm, core):
  summary = learn(
    algorithm,
    "CartPoleWithoutVelocities",
    *WITHOUT_VELOCITIES[algorithm],
    f"--config.network.core={core}",
    "--config.network.core_size=32",
    "--config.network.shared",
    # In a shared network, the loss of larger values would outweigh the policy's
    # loss.
    "--config.environment.reward_scale=0.05",
    "--config.limits.target_return=475",
    "--config.limits.environment_steps=300_000",
  )
  assert summary["stopped_because"] == "target_return"


def test_dqn_does_not_remember(learn):
  summary = learn("dqn", "MemoryChain", *MEMORY)
  assert summary["evaluation"]["best_mean_return"] < 0.5


@pytest.mark.parametrize(
  ("bonus", "opens"),
  [((), False), (("--config.bonus.kind=rnd",), True)],
)
def test_a_bonus_finds_the_end_of_a_lock(learn, bonus, opens):
  summary = learn(
    "dqn",
    "CombinationLock",
    "--config.adder.n_step=1",
    "--config.limits.target_return=0.7",
    "--config.limits.environment_steps=10_000",
    *bonus,
  )
  assert (summary["stopped_because"] == "target_return") == opens


@pytest.fixture
def updates(learn):
  """Returns a function that measures the updates until a lock is opened.

  Actions are random, and updates learn from the steps that these have found.
  The function returns the median of 5 seeds.
  """

  def updates(algorithm, *flags):
    found = []
    for seed in range(1, 6):
      summary = learn(
        algorithm,
        "CombinationLock",
        "--config.exploration.epsilon_end=1.0",
        "--config.learner.batch_size=8",
        "--config.adder.n_step=1",
        "--config.evaluation.period_steps=50",
        "--config.limits.target_return=0.5",
        "--config.limits.trainer_steps=16_000",
        f"--config.seed={seed}",
        "--overwrite",
        *flags,
      )
      found.append(summary["trainer_steps"])
    return np.median(found)

  return updates


def test_n_step_returns_propagate_a_reward_faster(updates):
  far = (
    "--config.environment.kwargs.states=20",
    "--config.environment.kwargs.forgiving=True",
    "--config.replay.min_size=10_000",
  )
  one_step = updates("double_dqn", *far)
  assert updates("double_dqn", *far, "--config.adder.n_step=5") < 0.6 * one_step


def test_priorities_find_a_rare_reward_sooner(updates):
  # With random actions, one step in 8,000 opens the lock.
  rare = (
    "--config.replay.min_size=40_000",
    # Frequent target updates, so that these do not limit the speed.
    "--config.learner.target_update_period=10",
  )
  uniform = updates("double_dqn", *rare)
  assert updates("prioritized_dqn", *rare) < 0.8 * uniform


def wasserstein(values, weights, expected):
  """Returns the Wasserstein distance of two distributions.

  Args:
    values: values of the first distribution.
    weights: probabilities of `values`.
    expected: equally likely values of the second distribution.
  """
  order = np.argsort(values)
  values, ends = values[order], np.cumsum(weights[order])
  grid = (np.arange(10_000) + 0.5) / 10_000
  found = values[np.minimum(np.searchsorted(ends, grid), len(values) - 1)]
  wanted = np.sort(expected)[(grid * len(expected)).astype(int)]
  return np.abs(found - wanted).mean()


@pytest.mark.parametrize(
  ("algorithm", "field"), [("c51", "atoms"), ("qr_dqn", "quantiles")]
)
def test_distributions_are_estimated(learn, tmp_path, algorithm, field):
  learn(
    algorithm,
    "NoisyReward",
    "--config.limits.target_return=inf",
    "--config.limits.environment_steps=30_000",
    f"--config.network.{field}=51",
    "--config.learner.learning_rate=1e-3",
    # For quantiles: with a delta of 1, they are pulled to the mean.
    "--config.learner.huber_delta=0.1",
  )
  folder = run_folder.RunFolder.open(tmp_path / "a-run")
  config = folder.read_config()
  spec = factory.make_spec(config.environment)
  network = network_lib.make_acting(q_network.QNetwork(config.network, spec))
  network.load(best_variables.load(folder.best)[1])
  observation = np.ones((1, 1), np.float32)
  outputs = network(observation).outputs[0].astype(float)  # [A, K]
  head = heads.make_head(config.network)
  for action, expected in enumerate(toys.NoisyReward.REWARDS):
    if head.atoms is not None:
      values = head.atoms
      weights = np.exp(outputs[action]) / np.exp(outputs[action]).sum()
    else:
      values, weights = outputs[action], np.full(len(outputs[action]), 1 / 51)
    assert wasserstein(values, weights, expected) < 0.3


# Flags of tasks whose goals random actions do not reach.
_GOALS = {
  "dqn": ("BitFlipping", "--config.environment.kwargs.bits=15"),
  "sac": ("Reaching", "--config.exploration.random_steps=500"),
}


@pytest.mark.parametrize("algorithm", _GOALS)
@pytest.mark.parametrize("hindsight", ["none", "future"])
def test_only_hindsight_reaches_goals(learn, algorithm, hindsight):
  toy, *flags = _GOALS[algorithm]
  summary = learn(
    algorithm,
    toy,
    *flags,
    "--config.adder.n_step=1",
    f"--config.replay.hindsight={hindsight}",
    "--config.limits.target_return=inf",
    "--config.limits.target_info=is_success:0.9",
    "--config.limits.environment_steps=20_000",
  )
  reached = summary["stopped_because"] == "target_info"
  assert reached == (hindsight == "future")


@pytest.fixture
def opened(tmp_path):
  """Records 5 episodes in which a lock is opened; returns their folder."""
  config = given.config_of(f"{toys.__name__}:CombinationLock-v0")
  environment = factory.make(config, 1, seed=1)
  with recorder.Recorder(tmp_path / "d", "a", config, environment) as recording:
    step = environment.reset()
    recording.add(None, step)
    for _ in range(5 * 13):
      actions = (step.observation.argmax(axis=1) % 2).astype(np.int32)
      step = environment.step(actions)
      recording.add(actions, step)
  environment.close()
  return tmp_path / "d"


@pytest.mark.parametrize(
  ("algorithm", "ratio"),
  [("dqn", 0.0), ("dqn", 0.5), ("dqfd", 0.25), ("r2d2", 0.25)],
)
def test_only_recorded_episodes_open_a_lock(learn, opened, algorithm, ratio):
  summary = learn(
    algorithm,
    "CombinationLock",
    "--config.adder.n_step=5",
    "--config.limits.target_return=0.7",
    "--config.limits.environment_steps=30_000",
    *([f"--config.dataset.path={opened}"] if ratio else []),
    f"--config.dataset.ratio={ratio}",
  )
  assert (summary["stopped_because"] == "target_return") == bool(ratio)
