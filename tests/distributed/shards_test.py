"""Shards: a replay of two servers, each of which is killed in turn."""

import os
import signal

import pytest

# A start-up takes about 10 s on all cores, and longer if they are shared.
pytestmark = [pytest.mark.runs, pytest.mark.timeout(300)]

FLAGS = (
  "--config=prioritized_dqn",
  "--config.replay.shards=2",
  "--config.topology.replay=own_process",
  "--config.topology.workers=2",
  "--config.snapshot.period_s=2",
)


def wait_for(run, condition):
  """Waits for a status that satisfies the condition; returns it."""
  seen = []

  def is_satisfied():
    seen.append(run.status())
    return condition(seen[-1])

  run.wait_until(is_satisfied)
  return seen[-1]


def kill(run, node):
  (process,) = run.processes(node)
  os.kill(process.pid, signal.SIGKILL)


def end(run):
  run.launcher.terminate()
  assert run.wait() == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()


def sampled(seen, shard):
  return seen["replay"]["shards"][str(shard)]["sampled"]


@pytest.mark.chaos
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_run_resumes_when_either_shard_dies(start_run, mode):
  run = start_run(f"--mode={mode}", *FLAGS)
  run.wait_until_learning()
  seen = wait_for(
    run,
    lambda s: (
      s["snapshots"]["written"] > 0
      and s["evaluation"]["mean_return"] is not None
      # The shards take turns by calls of 20 updates, which have to be many.
      and s["trainer_steps"] > 1_000
    ),
  )
  for shard in ("0", "1"):
    counts = seen["replay"]["shards"][shard]
    # Each shard has half of the items, and provides half of the batches.
    for name in ("inserted", "sampled"):
      assert counts[name] == pytest.approx(seen["replay"][name] / 2, rel=0.2)
  for resumes, shard in enumerate((1, 0), 1):  # shard 0 also has the variables
    kill(run, f"replay/{shard}")
    seen = wait_for(run, lambda s, n=resumes: s["resumes"] == n)
    assert seen["replay"]["size"] > 0
    wait_for(
      run,
      lambda s, seen=seen: (
        s["trainer_steps"] > seen["trainer_steps"] + 20
        and s["snapshots"]["written"] > seen["snapshots"]["written"] + 1
      ),
    )
  end(run)


def test_shards_are_resumed_with_their_items(start_run):
  run = start_run(*FLAGS, "--config.limits.environment_steps=6_000")
  assert run.wait() == 0, run.stderr
  before = run.summary
  again = start_run("--config.replay.shards=1", resume=True)
  assert again.wait() != 0
  (line,) = again.stderr.splitlines()
  assert "--config.replay.shards=1 can't change in a resume" in line
  more = start_run("--config.limits.environment_steps=0", resume=True)
  more.wait_until_learning()
  seen = wait_for(more, lambda s: s["trainer_steps"] > before["trainer_steps"])
  for shard in seen["replay"]["shards"].values():
    assert shard["inserted"] > before["items_confirmed"] / 3
  end(more)
  assert more.summary["env_steps"] > before["env_steps"]
