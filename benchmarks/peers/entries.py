"""Entries: the compared libraries, with their programs, variants and tasks."""

import dataclasses
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
TASKS = (
  "cartpole",
  "lunarlander",
  "pong",
  "ppo_cartpole",
  "ppo_lunarlander",
  "appo_cartpole",
)

# A return that counts as learned; Pong's is beyond a comparison's hour.
TARGETS = {
  "cartpole": 475.0,
  "lunarlander": 200.0,
  "ppo_cartpole": 475.0,
  "ppo_lunarlander": 200.0,
}
# Several times Slipway's duration; the excess of slower programs is irrelevant.
CAPS_S = {
  "cartpole": 60.0,
  "lunarlander": 200.0,
  "ppo_cartpole": 60.0,
  "ppo_lunarlander": 600.0,
}
# Seconds of a measurement of speed; LunarLander's tells nothing of its own.
WINDOWS_S = {
  "cartpole": 15.0,
  "pong": 60.0,
  "ppo_cartpole": 15.0,
  "appo_cartpole": 15.0,
}


@dataclasses.dataclass(frozen=True)
class Entry:
  """One row of the comparison.

  Attributes:
    name: name of the row.
    folder: folder of the program next to this file; has its requirements.txt.
    variant: variant of the program.
    speed: tasks whose rates are measured.
    learning: tasks whose seconds to the target are measured.
    beside: key in `OURS` of the entry with whose speed its own is compared.
    python: Python version of its lock; None: it uses Slipway's packages.
  """

  name: str
  folder: str
  variant: str
  speed: tuple[str, ...] = ()
  learning: tuple[str, ...] = ()
  beside: str = "uniform"
  python: str | None = None


OURS = {
  "uniform": Entry(
    "Slipway, uniform", "slipway", "uniform", ("cartpole", "pong")
  ),
  "prioritized": Entry(
    "Slipway, prioritized",
    "slipway",
    "prioritized",
    ("cartpole", "pong"),
  ),
  "preset": Entry(
    "Slipway, Ape-X preset",
    "slipway",
    "preset",
    learning=("cartpole", "lunarlander"),
  ),
  "ppo": Entry(
    "Slipway, PPO",
    "slipway",
    "ppo",
    ("ppo_cartpole",),
    ("ppo_cartpole", "ppo_lunarlander"),
  ),
  "appo": Entry("Slipway, APPO", "slipway", "appo", ("appo_cartpole",)),
}

SB3_8 = "Stable-Baselines3, 8 environments"
CLEANRL = "CleanRL"
ACME_DISTRIBUTED = "Acme, distributed, 2 actors"
RLLIB_APEX = "RLlib, Ape-X, 2 workers"
SAMPLE_FACTORY = "Sample Factory, APPO"

_LEARNING = ("cartpole", "lunarlander")
_PPO_LEARNING = ("ppo_cartpole", "ppo_lunarlander")

PEERS = (
  Entry(
    SB3_8,
    "stable_baselines3",
    "8_environments",
    ("cartpole", "pong"),
    _LEARNING,
    python="3.11",
  ),
  Entry(
    "Stable-Baselines3, 1 environment",
    "stable_baselines3",
    "1_environment",
    ("cartpole", "pong"),
    python="3.11",
  ),
  Entry(
    "Stable-Baselines3, tuned by its Zoo",
    "stable_baselines3",
    "zoo",
    learning=_LEARNING,
    python="3.11",
  ),
  Entry(
    CLEANRL, "cleanrl", "dqn", ("cartpole",), _LEARNING, python="3.11"
  ),
  Entry(
    "Dopamine, JAX", "dopamine", "default", ("cartpole",), _LEARNING,
    python="3.10",
  ),
  Entry(
    "TF-Agents with Reverb",
    "tf_agents",
    "default",
    ("cartpole", "pong"),
    _LEARNING,
    python="3.10",
  ),
  Entry(
    "Acme, one process",
    "acme",
    "agent",
    ("cartpole", "pong"),
    _LEARNING,
    beside="prioritized",
  ),
  Entry(
    ACME_DISTRIBUTED,
    "acme",
    "distributed",
    ("cartpole",),
    beside="prioritized",
  ),
  Entry(
    "RLlib, DQN", "rllib", "dqn", ("cartpole",), _LEARNING, python="3.10"
  ),
  Entry(
    RLLIB_APEX,
    "rllib",
    "apex",
    ("cartpole",),
    beside="prioritized",
    python="3.10",
  ),
  Entry(
    "Stable-Baselines3, PPO",
    "stable_baselines3",
    "ppo",
    ("ppo_cartpole",),
    _PPO_LEARNING,
    beside="ppo",
    python="3.11",
  ),
  Entry(
    "CleanRL, PPO",
    "cleanrl",
    "ppo",
    ("ppo_cartpole",),
    _PPO_LEARNING,
    beside="ppo",
    python="3.11",
  ),
  Entry(
    "RLlib, PPO",
    "rllib",
    "ppo",
    ("ppo_cartpole",),
    _PPO_LEARNING,
    beside="ppo",
    python="3.10",
  ),
  Entry(
    "Sample Factory, PPO",
    "sample_factory",
    "sync",
    ("ppo_cartpole",),
    _PPO_LEARNING,
    beside="ppo",
    python="3.11",
  ),
  Entry(
    SAMPLE_FACTORY,
    "sample_factory",
    "async",
    ("appo_cartpole",),
    beside="appo",
    python="3.11",
  ),
)  # fmt: skip

FOLDERS = tuple(dict.fromkeys(entry.folder for entry in PEERS))


def learner_of(task: str) -> Entry:
  """Returns the entry of Slipway that learns a task until its target."""
  (found,) = [entry for entry in OURS.values() if task in entry.learning]
  return found


def chosen(folders: tuple[str, ...]) -> list[Entry]:
  """Returns Slipway's entries, followed by those of the given folders."""
  peers = [entry for entry in PEERS if entry.folder in folders]
  return [*OURS.values(), *peers]
