"""Tests of the checks: evidence in, finding out."""

import time

import gymnasium
import numpy as np
import pytest
from acme import specs

from slipway.configs import catalog
from slipway.environments import random_play
from slipway.launch.control import waits
from slipway.launch.diagnosis import finding, table
from slipway.launch.runs import run_status


def make_probe(observations=None, **changes):
  """Returns measurements of a healthy environment, with changes."""
  spec = specs.EnvironmentSpec(
    observations or specs.Array((4,), np.float32),
    specs.DiscreteArray(2),
    specs.Array((), float),
    specs.BoundedArray((), float, 0.0, 1.0),
  )
  rewards = np.linspace(0.5, 1.0, 100)
  measured = {
    "name": "CartPole-v1",
    "spec": spec,
    "observation_space": gymnasium.spaces.Box(-1, 1, (4,)),
    "action_space": gymnasium.spaces.Discrete(2),
    "steps": 100,
    "step_s": 1e-4,
    "steps_per_s": 1e4,
    "observation_low": -np.ones(4),
    "observation_high": np.ones(4),
    "observation_scale": np.ones(4),
    "legal_share": 1.0,
    "rewards": rewards,
    "raw_rewards": rewards,
    "returns": [20.0, 30.0],
    "lengths": [20, 30],
    "terminations": 2,
    "longest_unfinished": 9,
    "is_reproducible": True,
    "starts_vary": True,
    "unpredictable": 0.0,
  } | changes
  return random_play.Probe(**measured)


def make_evidence(algorithm="dqn", config=None, status=None, **evidence):
  """Returns the evidence of a healthy run of CartPole, with changes."""
  whole = catalog.algorithms()[algorithm].get_config("cartpole")
  for name, value in (config or {}).items():
    section, _, field = name.partition(".")
    whole[section][field] = value
  counts = {
    "env_steps": 20_000,
    "episodes": 200,
    "truncations": 50,
    "trainer_steps": 2_500,
    "rates": run_status.RatesStatus(mean_env_steps_per_s=1_000.0),
    "training_return": 50.0,
  }
  made = run_status.RunStatus(**{**counts, **(status or {})})
  found = {"probe": make_probe(), "lengths": [100.0, 180.0], **evidence}
  return finding.Evidence(whole, status=made, **found)


@pytest.mark.parametrize("algorithm", ["dqn", "ppo", "c51", "rainbow", "sac"])
def test_a_healthy_run_has_no_finding(algorithm):
  assert table.find(make_evidence(algorithm)) == []


# algorithm, changes of the config, other evidence, name of the only finding
SETTINGS = [
  ("dqn", {"learner.learning_rate": 0.2}, {}, "learning rate"),
  ("dqn", {"learner.learning_rate": 1e-8}, {}, "learning rate"),
  ("dqn", {"learner.optimizer": "sgd", "learner.learning_rate": 0.1}, {}, None),
  ("dqn", {"adder.discount": 0.5}, {}, "discount"),
  (
    "dqn",
    {"adder.discount": 0.5},
    {"lengths": [7.0], "probe": None, "status": {"episodes": 5_000}},
    None,
  ),
  ("dqn", {"adder.discount": 0.9}, {}, None),
  (
    "dqn",
    {"adder.discount": 0.5},
    {"probe": make_probe(rewards=np.linspace(0.05, 0.1, 100))},
    "discount",
  ),
  ("ppo", {"adder.discount": 1.0}, {}, None),
  ("dqn", {"adder.n_step": 100}, {}, "n-step"),
  ("dqn", {"replay.capacity": 100}, {}, "replay"),
  ("dqn", {"learner.batch_size": 4}, {}, "batch size"),
  ("dqn", {"learner.target_update_period": 1}, {}, "target network"),
  ("dqn", {"learner.target_update_period": 20_000}, {}, "target network"),
  ("sac", {"learner.tau": 1.0}, {}, "target network"),
  ("sac", {"learner.tau": 1e-6}, {}, "target network"),
  ("dqn", {"exploration.evaluation_epsilon": 1.0}, {}, "evaluation"),
  ("ppo", {"learner.clip": 1e-3}, {}, "policy clip"),
  ("ppo", {"learner.epochs": 90}, {}, "epochs"),
  ("sac", {"exploration.noise_std": 0.0}, {}, "noise"),
  ("dqn", {"exploration.epsilon_end": 1.0}, {}, "exploration"),
  ("dqn", {"exploration.decay_steps": 10**9}, {}, "exploration"),
  (
    "dqn",
    {"exploration.decay_steps": 10**5, "limits.environment_steps": 10**4},
    {},
    "exploration",
  ),
  (
    "dqn",
    {"exploration.epsilon_start": 0.0, "exploration.epsilon_end": 0.0},
    {},
    "exploration",
  ),
  ("rainbow", {"exploration.epsilon_start": 0.0}, {}, None),
  ("ppo", {"learner.entropy_weight": 10.0}, {}, "entropy weight"),
  ("dqn", {"variables.publish_period": 10**5}, {}, "publications"),
  ("dqn", {"network.hidden_sizes": (64, 2)}, {}, "small network"),
]


@pytest.mark.parametrize(("algorithm", "config", "evidence", "name"), SETTINGS)
def test_settings(algorithm, config, evidence, name):
  check_only(make_evidence(algorithm, config, **evidence), name)


def check_only(evidence, name):
  """Checks that evidence has one finding, or none, in one line."""
  found = table.find(evidence)
  assert [x.name for x in found] == ([name] if name else [])
  assert all("\n" not in x.sentence for x in found)


FLAT = np.zeros(100)
FRAME = specs.Array((84, 84, 3), np.uint8)
# changes of the probe, other evidence, changes of the config, finding
PROBES = [
  ({"rewards": np.linspace(500, 1_000, 100)}, {}, {}, "reward scale"),
  ({"rewards": np.linspace(5e-4, 1e-3, 100)}, {}, {}, "reward scale"),
  ({"rewards": np.linspace(500, 1_000, 100)}, {},
   {"normalization.rewards": True}, None),
  ({"rewards": FLAT, "raw_rewards": FLAT, "returns": [0.0, 0.0]},
   {"returns": [0.0], "status": {"training_return": 0.0}}, {},
   "constant reward"),
  ({"rewards": FLAT, "raw_rewards": FLAT, "returns": [0.0, 0.0]},
   {"returns": [1.0], "status": {"training_return": 0.0}}, {}, None),
  ({"lengths": [200] * 4, "terminations": 4}, {}, {}, "truncation"),
  ({"lengths": [200, 90, 200, 150], "terminations": 4}, {}, {}, "truncation"),
  ({"lengths": [200] * 4, "terminations": 0}, {}, {}, None),
  ({"is_reproducible": False}, {}, {}, "seed"),
  ({"observation_low": np.ones(4)}, {}, {}, "observation"),
  ({"observation_scale": np.array([1, 1, 1, 900.0])}, {}, {},
   "observation scale"),
  ({"observation_scale": np.array([1, 1, 1, 900.0])}, {},
   {"normalization.observations": True}, None),
  ({"unpredictable": 1.0}, {}, {}, "hidden state"),
  ({"unpredictable": 1.0}, {}, {"environment.frame_stack": 4}, None),
  ({"observations": FRAME}, {}, {}, "hidden state"),
  ({"step_s": 0.05}, {}, {}, "slow environment"),
]  # fmt: skip


@pytest.mark.parametrize(("probe", "evidence", "config", "name"), PROBES)
def test_what_random_play_reveals(probe, evidence, config, name):
  whole = make_evidence(config=config, probe=make_probe(**probe), **evidence)
  check_only(whole, name)


@pytest.mark.parametrize(
  "name",
  [
    *("environment", "seed", "action scale", "truncation"),
    *("reward sign", "reward scale"),
  ],
)
def test_faults_of_wrappers(name):
  evidence = make_evidence(faults={name: "Mine is at fault: "})
  check_only(evidence, name)
  (found,) = table.find(evidence)
  assert found.sentence.startswith("Mine")


def wait_for(reason, seconds):
  """Returns the status of a run whose trainer waits."""
  wait = waits.Wait(reason, seconds)
  waiting = waits.describe("trainer", 1, [wait], time.time())
  return {"phase": "running", "waiting": waiting}


NO_UPDATES = {"trainer_steps": 0, "replay": run_status.ReplayStatus(9)}
# algorithm, metrics, name of the only finding
METRICS = [
  ("ppo", {"entropy": 1e-4}, "entropy"),
  ("ppo", {"entropy": 0.692}, "entropy"),
  ("ppo", {"entropy": 0.4, "kl": 0.01}, None),
  ("sac", {"saturated_actions": 1.0}, "saturated actions"),
  ("sac", {"saturated_actions": 0.9}, None),
]


@pytest.mark.parametrize(("algorithm", "metrics", "name"), METRICS)
def test_metrics(algorithm, metrics, name):
  check_only(make_evidence(algorithm, metrics=metrics), name)


@pytest.mark.parametrize(
  ("status", "name"),
  [
    ({"first_failures": {"worker": "OSError"}}, "failures"),
    (wait_for(waits.TRANSITIONS, 9.0), "starved trainer"),
    (wait_for(waits.TRANSITIONS, 1_009.0), "starved trainer"),
    (wait_for(waits.TRANSITIONS, 1.0), None),
    (wait_for(waits.LAST_SNAPSHOT, 9.0), None),
    ({**wait_for(waits.TRANSITIONS, 9.0), "phase": "stopped"}, None),
    ({"stalled_s": 40.0}, "stall"),
    ({**NO_UPDATES, "phase": "stopped"}, "no updates"),
    ({**NO_UPDATES, "env_steps": 50, "phase": "running"}, None),
    ({"episodes": 0, "env_steps": 30_000}, "endless episodes"),
    (
      {
        "phase": "running",
        "variables": run_status.VariablesStatus(5, 60.0, 0.001, 0.05),
      },
      "stale variables",
    ),
  ],
)
def test_status(status, name):
  check_only(make_evidence(status=status), name)


@pytest.mark.parametrize(
  ("steps", "evaluations", "name"),
  [(1_500, 0, "endless episodes"), (1_500, 1, None), (500, 0, None)],
)
def test_a_run_stopped_in_its_first_evaluation(steps, evaluations, name):
  status = {
    "phase": "stopped",
    "env_steps": 3_000,
    "episodes": 0,
    "evaluation": run_status.EvaluationStatus(count=evaluations),
  }
  probe = make_probe(lengths=[], returns=[], longest_unfinished=steps)
  evidence = make_evidence(status=status, probe=probe, lengths=[])
  check_only(evidence, name)


def test_warnings_of_a_run_at_its_target_are_left_out():
  at_target = {"evaluation": run_status.EvaluationStatus(at_target=1)}
  probe = make_probe(unpredictable=1.0, is_reproducible=False)
  evidence = {"probe": probe, "metrics": {"dead_units": 1.0}}
  names = [x.name for x in table.find(make_evidence(**evidence))]
  assert names == ["seed", "hidden state", "dead units"]
  solved = make_evidence(**evidence, status=at_target)
  assert [x.name for x in table.find(solved)] == ["seed"]
  # With costs for rewards, a run reaches its target by failing.
  costs = make_evidence(
    **evidence, status=at_target, faults={"reward sign": "x"}
  )
  found = [x.name for x in table.find(costs)]
  assert found == ["seed", "reward sign", *names[1:]]


def test_nothing_is_found_without_evidence():
  config = catalog.algorithms()["ppo"].get_config("cartpole")
  assert table.find(finding.Evidence(config)) == []
