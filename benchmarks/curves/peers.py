"""Peers: runs of other libraries, for the same pages as Slipway's."""

import typing
from collections.abc import Mapping

from benchmarks.curves import data
from benchmarks.curves import tasks as tasks_lib
from benchmarks.peers import entries, installation, watched


class Peer(typing.NamedTuple):
  """An algorithm of another library.

  Attributes:
    entry: name of its entry in `benchmarks.peers.entries`.
    tasks: value of the program's --task by the name of a task in `tasks.TASKS`.
  """

  entry: str
  tasks: Mapping[str, str]


_DQN = {
  "cartpole": "cartpole",
  "cartpole_held": "cartpole",
  "lunarlander": "lunarlander",
  "lunarlander_held": "lunarlander",
}
_PPO = {
  "cartpole_policy_gradients": "ppo_cartpole",
  "cartpole_held": "ppo_cartpole",
  "lunarlander_policy_gradients": "ppo_lunarlander",
}

# The algorithms of other libraries, by the names that they have on the pages.
PEERS = {
  "cleanrl_dqn": Peer(entries.CLEANRL, _DQN),
  "cleanrl_ppo": Peer("CleanRL, PPO", _PPO),
  "stable_baselines3_dqn": Peer(entries.SB3_ZOO, _DQN),
  "stable_baselines3_ppo": Peer("Stable-Baselines3, PPO", _PPO),
  "stable_baselines3_sac": Peer(entries.SB3_SAC, {"pendulum": "sac_pendulum"}),
}


def list_names(task: str) -> tuple[str, ...]:
  """Returns the names of the peers that learn a task of `tasks.TASKS`."""
  return tuple(name for name, peer in PEERS.items() if task in peer.tasks)


def measure(
  name: str, task_name: str, task: tasks_lib.Task, seed: int
) -> list[data.Row]:
  """Runs a peer with a seed, and returns one row per evaluation.

  Seconds count from the command, without the evaluations, which a peer makes
  while it does not learn.

  Args:
    name: name of the peer, one of `list_names(task_name)`.
    task_name: name of the task.
    task: the task.
    seed: seed of the run.

  Raises:
    installation.NotInstalledError: the peer's packages can't be installed.
    watched.FailedError: the program failed.
    TimeoutError: the run took longer than the task's limit.
  """
  rows: list[data.Row] = []
  evaluated_at: int | None = None

  def is_new(line: watched.Line) -> bool:
    return line.evaluated_at != evaluated_at or is_end(line)

  def is_end(line: watched.Line) -> bool:
    return line.env_steps >= task.env_steps

  peer = PEERS[name]
  command = installation.make_command(
    entries.find_peer(peer.entry), peer.tasks[task_name], seed
  )
  with watched.start_program([*command, "--until=inf"]) as program:
    while True:
      line = program.wait(is_new, program.began_s + task.limit_s)
      # A program reports once a second, and may be past the end by then.
      if (line.evaluated_at or 0) > task.env_steps:
        return rows
      if line.evaluated_at != evaluated_at:
        evaluated_at = line.evaluated_at
        wall_s = line.at_s - program.began_s - line.paused_s
        rows.append(
          {
            "seed": str(seed),
            "wall_s": str(wall_s),
            "env_steps": str(evaluated_at),
            "trainer_steps": str(line.updates),
            "eval_return": str(line.evaluated),
          }
        )
      if is_end(line):
        return rows
