"""Chaos: a run learns although its nodes are killed at random, under a seed.

The launcher is not killed here: other tests cover that.
"""

import pytest

from tests.distributed import chaos as chaos_lib

_SNAPSHOTS = "--config.snapshot.period_s=3"


@pytest.mark.chaos
@pytest.mark.timeout(240)
def test_each_role_is_killed_once(start_run):
  run = start_run(
    *(*chaos_lib.FLAGS, _SNAPSHOTS, "--config.topology.replay=own_process")
  )
  nodes = (*chaos_lib.NODES, "replay/0", "worker/1")
  chaos = chaos_lib.Chaos(run, 1, nodes, pause_s=(1.0, 2.0))
  chaos.round()
  chaos.end(target=100.0)


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("replay", ["with_trainer", "own_process"])
def test_cartpole_is_solved_despite_kills(start_run, replay, seed):
  run = start_run(
    *(*chaos_lib.FLAGS, _SNAPSHOTS, f"--config.topology.replay={replay}"),
    *(f"--config.seed={seed}", "--config.network.hidden_sizes=(64, 64)"),
    "--config.evaluation.episodes=20",
  )
  replay_nodes = ("replay/0",) if replay == "own_process" else ()
  nodes = (*chaos_lib.NODES, *replay_nodes, "worker/0", "worker/1")
  chaos = chaos_lib.Chaos(run, seed, nodes, pause_s=(1.0, 5.0))
  for _ in range(2):
    chaos.round()
  # The kills continue until the return is reached: it must not depend on a time
  # without kills.
  while max(row["eval_return"] for row in run.evaluations) < 475.0:
    chaos.round()
  chaos.end(target=475.0)
