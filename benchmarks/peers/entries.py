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
  "sac_halfcheetah",
  "td3_halfcheetah",
  "sac_lunarlander",
  "sac_pendulum",
  "d4pg_pendulum",
)

# Mean returns at which a task counts as learned; Pong takes too many hours.
TARGETS = {
  "cartpole": 475.0,
  "lunarlander": 200.0,
  "ppo_cartpole": 475.0,
  "ppo_lunarlander": 200.0,
  "sac_lunarlander": 200.0,
  "sac_pendulum": -200.0,
  "d4pg_pendulum": -200.0,
}
# Environment steps after which the return is measured, of tasks without a
# target.
STEPS = {"ppo_halfcheetah": 1_000_000}
# Seconds after which learning is aborted: several times Slipway's duration.
CAPS_S = {
  "cartpole": 120.0,
  "lunarlander": 200.0,
  "ppo_cartpole": 120.0,
  "ppo_lunarlander": 600.0,
  "ppo_halfcheetah": 1_800.0,
  "sac_lunarlander": 600.0,
  "sac_pendulum": 300.0,
  "d4pg_pendulum": 300.0,
}
# Seconds over which speed is measured; LunarLander's would add nothing new.
WINDOWS_S = {
  "cartpole": 15.0,
  "pong": 60.0,
  "ppo_cartpole": 15.0,
  "ppo_pong": 60.0,
  "appo_cartpole": 15.0,
  "sac_halfcheetah": 30.0,
  "td3_halfcheetah": 30.0,
  "d4pg_pendulum": 30.0,
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


_LEARNING = ("cartpole", "lunarlander")

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
  "apex_dqn": Entry(
    "Slipway, Ape-X preset", "slipway", "apex_dqn", learning=_LEARNING
  ),
  "dqn": Entry("Slipway, DQN preset", "slipway", "dqn", learning=_LEARNING),
  "ppo": Entry(
    "Slipway, PPO",
    "slipway",
    "ppo",
    ("ppo_cartpole", "ppo_pong"),
    ("ppo_cartpole", "ppo_lunarlander", "ppo_halfcheetah"),
  ),
  "ppo_bfloat16": Entry(
    "Slipway, PPO, bfloat16", "slipway", "ppo_bfloat16", ("ppo_pong",)
  ),
  "appo": Entry("Slipway, APPO", "slipway", "appo", ("appo_cartpole",)),
  "sac": Entry(
    "Slipway, SAC",
    "slipway",
    "sac",
    ("sac_halfcheetah",),
    ("sac_lunarlander", "sac_pendulum"),
  ),
  "td3": Entry("Slipway, TD3", "slipway", "td3", ("td3_halfcheetah",)),
  "d4pg": Entry(
    "Slipway, D4PG, 4 workers",
    "slipway",
    "d4pg",
    ("d4pg_pendulum",),
    ("d4pg_pendulum",),
  ),
}

SB3_8 = "Stable-Baselines3, 8 environments"
SB3_ZOO = "Stable-Baselines3, tuned by its Zoo"
CLEANRL = "CleanRL"
ACME_DISTRIBUTED = "Acme, distributed, 2 actors"
RLLIB_DISTRIBUTED = "RLlib, DQN, 2 workers"
SAMPLE_FACTORY = "Sample Factory, APPO"
SB3_SAC = "Stable-Baselines3, SAC"
SB3_SAC_4 = "Stable-Baselines3, SAC, 4 environments"
SB3_TD3 = "Stable-Baselines3, TD3"
SB3_TD3_4 = "Stable-Baselines3, TD3, 4 environments"
SBX_SAC = "SBX, SAC"
SBX_SAC_4 = "SBX, SAC, 4 environments"
SBX_TD3 = "SBX, TD3"
SBX_TD3_4 = "SBX, TD3, 4 environments"
ACME_D4PG = "Acme, D4PG, 4 actors"


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


def _make_actor_critic(name: str, folder: str, algorithm: str) -> Entry:
  """Makes the entry of a peer's SAC or TD3, with the tasks of Slipway's entry.

  Args:
    name: name of the row; with 4 environments, only the speed is measured.
    folder: folder of its program.
    algorithm: 'sac' or 'td3'.
  """
  several = name.endswith("4 environments")
  ours = OURS[algorithm]
  return Entry(
    name,
    folder,
    "actor_critic_4" if several else "actor_critic",
    ours.speed,
    () if several else ours.learning,
    compared_with=algorithm,
    python="3.11",
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
    SB3_ZOO,
    "stable_baselines3",
    "zoo",
    learning=_LEARNING,
    python="3.11",
  ),
  Entry(
    CLEANRL, "cleanrl", "dqn", ("cartpole",), _LEARNING, python="3.11"
  ),
  Entry(
    "CleanRL, compiled",
    "cleanrl",
    "dqn_compiled",
    ("cartpole",),
    _LEARNING,
    python="3.11",
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
    python="3.10",
  ),
  Entry(
    ACME_DISTRIBUTED,
    "acme",
    "distributed",
    ("cartpole",),
    compared_with="prioritized",
    python="3.10",
  ),
  Entry(
    "RLlib, DQN", "rllib", "dqn", ("cartpole",), _LEARNING, python="3.11"
  ),
  Entry(
    RLLIB_DISTRIBUTED,
    "rllib",
    "dqn_workers",
    ("cartpole",),
    compared_with="prioritized",
    python="3.11",
  ),
  Entry(
    "Tianshou, DQN", "tianshou", "dqn", ("cartpole",), _LEARNING, python="3.11"
  ),
  _make_ppo(
    "Stable-Baselines3", "stable_baselines3", "ppo", "3.11",
    "ppo_halfcheetah", "ppo_pong",
  ),
  _make_ppo("CleanRL", "cleanrl", "ppo", "3.11", "ppo_halfcheetah"),
  _make_ppo("CleanRL, compiled", "cleanrl", "ppo_compiled", "3.11"),
  _make_ppo("RLlib", "rllib", "ppo", "3.11"),
  _make_ppo("Tianshou", "tianshou", "ppo", "3.11"),
  _make_ppo("TorchRL", "torchrl", "ppo", "3.11"),
  _make_ppo(
    "Sample Factory", "sample_factory", "sync", "3.11",
    "ppo_halfcheetah", "ppo_pong",
  ),
  Entry(
    "PufferLib, PPO",
    "pufferlib",
    "ppo",
    ("ppo_cartpole",),
    ("ppo_cartpole",),
    compared_with="ppo",
    python="3.11",
  ),
  Entry(
    SAMPLE_FACTORY,
    "sample_factory",
    "async",
    ("appo_cartpole",),
    compared_with="appo",
    python="3.11",
  ),
  _make_actor_critic(SB3_SAC, "stable_baselines3", "sac"),
  _make_actor_critic(SB3_SAC_4, "stable_baselines3", "sac"),
  _make_actor_critic(SBX_SAC, "sbx", "sac"),
  _make_actor_critic(SBX_SAC_4, "sbx", "sac"),
  Entry(
    "Tianshou, SAC",
    "tianshou",
    "sac",
    ("sac_halfcheetah",),
    compared_with="sac",
    python="3.11",
  ),
  Entry(
    "TorchRL, SAC",
    "torchrl",
    "sac",
    ("sac_halfcheetah",),
    compared_with="sac",
    python="3.11",
  ),
  _make_actor_critic(SB3_TD3, "stable_baselines3", "td3"),
  _make_actor_critic(SB3_TD3_4, "stable_baselines3", "td3"),
  _make_actor_critic(SBX_TD3, "sbx", "td3"),
  _make_actor_critic(SBX_TD3_4, "sbx", "td3"),
  Entry(
    ACME_D4PG,
    "acme",
    "d4pg",
    ("d4pg_pendulum",),
    ("d4pg_pendulum",),
    compared_with="d4pg",
    python="3.10",
  ),
)  # fmt: skip

FOLDERS = tuple(dict.fromkeys(entry.folder for entry in PEERS))

# Names of the libraries' packages that do not follow from their folders' names.
_PACKAGES = {
  "acme": "dm-acme",
  "dopamine": "dopamine-rl",
  "pufferlib": "pufferlib-core",
  "rllib": "ray",
  "sbx": "sbx-rl",
}


def get_release(folder: str) -> str:
  """Returns a library's package and release in its lock, such as 'ray 2.60.0'.

  Args:
    folder: one of `FOLDERS`.
  """
  package = _PACKAGES.get(folder, folder.replace("_", "-"))
  lock = (FOLDER / folder / "requirements.txt").read_text().splitlines()
  (line,) = [line for line in lock if line.startswith(f"{package}==")]
  return line.replace("==", " ")


def find_learners(task: str) -> list[Entry]:
  """Returns Slipway's entries whose seconds to a task's target are measured."""
  return [entry for entry in OURS.values() if task in entry.learning]


def find_peer(name: str) -> Entry:
  """Returns the peer's entry with a name, such as `SB3_ZOO`."""
  (found,) = [entry for entry in PEERS if entry.name == name]
  return found


def select(folders: tuple[str, ...]) -> list[Entry]:
  """Returns Slipway's entries, followed by the peers' of the given folders."""
  peers = [entry for entry in PEERS if entry.folder in folders]
  return [*OURS.values(), *peers]
