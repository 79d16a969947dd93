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
def test_either_shard_is_killed_and_restarted(start_run):
  run = start_run(*FLAGS)
  run.wait_until_learning()
  seen = wait_for(
    run,
    lambda s: (
      s["snapshots"]["written"] > 0
      and s["evaluation"]["mean_return"] is not None
    ),
  )
  assert seen["replay"]["shards_up"] == 2
  for shard in ("0", "1"):
    counts = seen["replay"]["shards"][shard]
    # Each shard has half of the items, and provides half of the batches.
    for name in ("inserted", "sampled"):
      assert counts[name] == pytest.approx(seen["replay"][name] / 2, rel=0.2)
  trainer = run.processes("trainer/0")
  for shard in (1, 0):  # shard 0 also has the variables
    kill(run, f"replay/{shard}")
    lost = f"replay server {shard} at "
    run.wait_until(lambda lost=lost: lost in _warnings(run))
    before = run.status()
    other = 1 - shard
    wait_for(
      run,
      lambda s, before=before, other=other: (
        s["trainer_steps"] > before["trainer_steps"]
        and sampled(s, other) > sampled(before, other)
      ),
    )
    seen = wait_for(run, lambda s: s["replay"]["shards_up"] == 2)
    wait_for(
      run,
      lambda s, seen=seen, shard=shard: (
        sampled(s, shard) > sampled(seen, shard)
        and s["variables"]["version"] > seen["variables"]["version"]
        and s["proxy"]["variables_version"] > seen["variables"]["version"]
        and s["snapshots"]["written"] > seen["snapshots"]["written"] + 1
      ),
    )
  # The trainer was not restarted, and both workers write.
  assert run.processes("trainer/0") == trainer
  restarts = {"replay/0": 1, "replay/1": 1}
  seen = wait_for(run, lambda s: s["node_restarts"] == restarts)
  wait_for(
    run,
    lambda s: all(
      s["workers"][worker]["items_confirmed"]
      > seen["workers"][worker]["items_confirmed"]
      for worker in ("0", "1")
    ),
  )
  end(run)
  assert run.summary["trainer_steps_lost"] == 0
  assert 0 < run.summary["items_lost"] <= run.summary["env_steps"]


@pytest.mark.chaos
@pytest.mark.parametrize("config", [None, "ppo.py:cartpole"])
def test_rounds_continue_when_either_shard_is_killed(start_run, config):
  run = start_run(
    "--mode=sync", *(FLAGS if config is None else FLAGS[1:]), config=config
  )
  run.wait_until_learning()
  wait_for(run, lambda s: s["snapshots"]["written"] > 0)
  trainer = run.processes("trainer/0")
  for shard in (0, 1):
    kill(run, f"replay/{shard}")
    node = f"replay/{shard}"
    wait_for(
      run,
      lambda s, node=node: (
        s["node_restarts"].get(node) == 1 and s["replay"]["shards_up"] == 2
      ),
    )
    before = run.status()
    wait_for(
      run,
      lambda s, before=before: (
        s["variables"]["version"] > before["variables"]["version"] + 2
        and s["trainer_steps"] > before["trainer_steps"]
      ),
    )
  assert run.processes("trainer/0") == trainer
  end(run)


def _warnings(run):
  """Returns the trainer's warnings that a replay server is down."""
  lines = run.log("trainer/0").splitlines()
  return "\n".join(line for line in lines if "is down" in line)


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
  assert more.summary["env_steps_lost"] == 0
