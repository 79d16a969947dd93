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
  "ppo_halfcheetah",
  "ppo_pong",
  "appo_cartpole",
)

# Mean returns at which a task counts as learned; Pong takes too many hours.
TARGETS = {
  "cartpole": 475.0,
  "lunarlander": 200.0,
  "ppo_cartpole": 475.0,
  "ppo_lunarlander": 200.0,
}
# Environment steps after which the return is measured, of tasks without a
# target.
STEPS = {"ppo_halfcheetah": 1_000_000}
# Seconds after which learning is aborted: several times Slipway's duration.
CAPS_S = {
  "cartpole": 60.0,
  "lunarlander": 200.0,
  "ppo_cartpole": 60.0,
  "ppo_lunarlander": 600.0,
  "ppo_halfcheetah": 1_800.0,
}
# Seconds over which speed is measured; LunarLander's would add nothing new.
WINDOWS_S = {
  "cartpole": 15.0,
  "pong": 60.0,
  "ppo_cartpole": 15.0,
  "ppo_pong": 60.0,
  "appo_cartpole": 15.0,
}


@dataclasses.dataclass(frozen=True)
class Entry:
  """A library's program and variant, which is one row of the comparison.

  Attributes:
    name: name of the row.
    folder: folder, next to this file, of program.py and requirements.txt.
    variant: value of the program's flag --variant.
    speed: names of the tasks on which the speed is measured.
    learning: names of the tasks on which the seconds to the target return, or
      to the number of environment steps, are measured.
    compared_with: key in `OURS` of Slipway's entry for the ratio of speeds.
    python: Python version of the program's virtual environment; None: the
      program uses Slipway's packages.
  """

  name: str
  folder: str
  variant: str
  speed: tuple[str, ...] = ()
  learning: tuple[str, ...] = ()
  compared_with: str = "uniform"
  python: str | None = None


# Slipway's entries, by the name of their variant.
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
    ("ppo_cartpole", "ppo_pong"),
    ("ppo_cartpole", "ppo_lunarlander", "ppo_halfcheetah"),
  ),
  "appo": Entry("Slipway, APPO", "slipway", "appo", ("appo_cartpole",)),
}

SB3_8 = "Stable-Baselines3, 8 environments"
CLEANRL = "CleanRL"
ACME_DISTRIBUTED = "Acme, distributed, 2 actors"
RLLIB_APEX = "RLlib, Ape-X, 2 workers"
SAMPLE_FACTORY = "Sample Factory, APPO"

_LEARNING = ("cartpole", "lunarlander")


def _make_ppo(
  library: str, folder: str, variant: str, python: str, *others: str
) -> Entry:
  """Makes the entry of a peer's PPO, which is compared with Slipway's PPO.

  Args:
    library: name of the peer.
    folder: folder of its program.
    variant: variant of its program.
    python: version of its Python.
    *others: names of the tasks that it can learn besides CartPole and
      LunarLander.
  """
  return Entry(
    f"{library}, PPO",
    folder,
    variant,
    tuple(x for x in ("ppo_cartpole", *others) if x in WINDOWS_S),
    tuple(
      x
      for x in ("ppo_cartpole", "ppo_lunarlander", *others)
      if x in TARGETS or x in STEPS
    ),
    compared_with="ppo",
    python=python,
  )


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
    compared_with="prioritized",
  ),
  Entry(
    ACME_DISTRIBUTED,
    "acme",
    "distributed",
    ("cartpole",),
    compared_with="prioritized",
  ),
  Entry(
    "RLlib, DQN", "rllib", "dqn", ("cartpole",), _LEARNING, python="3.10"
  ),
  Entry(
    RLLIB_APEX,
    "rllib",
    "apex",
    ("cartpole",),
    compared_with="prioritized",
    python="3.10",
  ),
  _make_ppo(
    "Stable-Baselines3", "stable_baselines3", "ppo", "3.11",
    "ppo_halfcheetah", "ppo_pong",
  ),
  _make_ppo("CleanRL", "cleanrl", "ppo", "3.11", "ppo_halfcheetah"),
  _make_ppo("RLlib", "rllib", "ppo", "3.10"),
  _make_ppo(
    "Sample Factory", "sample_factory", "sync", "3.11",
    "ppo_halfcheetah", "ppo_pong",
  ),
  Entry(
    SAMPLE_FACTORY,
    "sample_factory",
    "async",
    ("appo_cartpole",),
    compared_with="appo",
    python="3.11",
  ),
)  # fmt: skip

FOLDERS = tuple(dict.fromkeys(entry.folder for entry in PEERS))


def find_learner(task: str) -> Entry:
  """Returns Slipway's entry whose seconds to a task's target are measured."""
  (found,) = [entry for entry in OURS.values() if task in entry.learning]
  return found


def select(folders: tuple[str, ...]) -> list[Entry]:
  """Returns Slipway's entries, followed by the peers' of the given folders."""
  peers = [entry for entry in PEERS if entry.folder in folders]
  return [*OURS.values(), *peers]
