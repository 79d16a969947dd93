"""Comparison with other libraries: output lines, runs and tables."""

import math
import pathlib
import re
import subprocess
import sys
import textwrap
import time

import pytest

from benchmarks import dm_environment, machine, partial_results
from benchmarks.peers import (
  comparison,
  entries,
  installation,
  learning,
  medians,
  picture,
  rounds,
  speed,
  watched,
)
from benchmarks.peers.common import continuous, rollouts, tasks
from slipway.configs import catalog, dqn, fields, ppo
from slipway.environments import ids

_TIMEOUT_S = 60.0

_COUNTING = """
  import progress
  reporter = progress.Reporter()
  print("what libraries print")
  while True:
    reporter.env_steps += 80
    reporter.updates += 10
    sum(range(10_000))
"""

_LEARNING = """
  import time
  import progress
  reporter = progress.Reporter(until=10.0)
  for _ in range(100):
    reporter.add_return(9.0)
  reporter.env_steps = 2_000
  assert reporter.evaluation_due(2_000)
  assert not reporter.evaluation_due(2_000)
  def play():
    time.sleep(1.0)
    return [9.0, 11.0]
  reporter.evaluate(play)
  time.sleep(3)
"""

_WITH_CHILD = """
  import subprocess, sys, time
  import progress
  reporter = progress.Reporter()
  burn = "while True: pass"
  subprocess.Popen([sys.executable, "-c", burn], start_new_session=True)
  reporter.updates = 1
  time.sleep(100)
"""


def _program(folder: pathlib.Path, text: str) -> list[str]:
  """Writes a program to a folder; returns the command that runs it."""
  path = folder / "program.py"
  path.write_text(textwrap.dedent(text))
  return [sys.executable, str(path)]


def _rows(measured, column, values, note=""):
  """Returns a row per entry and seed; `values` has a list per entry."""
  return [
    rounds.make_row(
      "cartpole", entry, measured, seed, **{column: value}, note=note
    )
    for entry, of_seeds in values.items()
    for seed, value in enumerate(of_seeds, 1)
  ]


def test_speed_of_a_program_is_measured(tmp_path):
  with watched.start_program(_program(tmp_path, _COUNTING)) as program:
    found = speed.measure(program, 2.0, _TIMEOUT_S)
  assert 0 < found.env_steps_per_cpu_s < math.inf
  assert found.env_steps_per_s / found.updates_per_s == pytest.approx(8, 0.1)
  assert found.processes == 1
  assert found.memory_mib > 1


def test_seconds_of_evaluations_are_subtracted(tmp_path):
  began_s = time.monotonic()
  with watched.start_program(_program(tmp_path, _LEARNING)) as program:
    learned = learning.measure(program, _TIMEOUT_S)
    passed_s = time.monotonic() - began_s
  assert learned is not None
  assert 0 < learned.seconds < passed_s - 0.9
  assert learned.mean_return == 9.0


def test_seconds_and_return_after_a_number_of_steps_are_measured(tmp_path):
  text = _LEARNING.replace("until=10.0", "")
  text = text.replace("assert reporter.evaluation_due(2_000)", "")
  with watched.start_program(_program(tmp_path, text)) as program:
    learned = learning.measure(program, _TIMEOUT_S, env_steps=2_000)
    with pytest.raises(watched.FailedError):
      learning.measure(program, _TIMEOUT_S, env_steps=3_000)
  assert learned is not None
  assert learned.mean_return == 9.0


def test_program_over_its_cap_has_no_seconds(tmp_path):
  with watched.start_program(_program(tmp_path, _COUNTING)) as program:
    assert learning.measure(program, 0.5) is None


def test_program_that_fails_is_reported_with_its_error(tmp_path):
  command = _program(tmp_path, "raise ValueError('no such game')")
  with (
    watched.start_program(command) as program,
    pytest.raises(watched.FailedError, match=r"status 1: .*no such game"),
  ):
    speed.measure(program, 1.0, _TIMEOUT_S)


def test_tree_counts_and_ends_children_of_other_sessions(monkeypatch, tmp_path):
  monkeypatch.setattr(watched, "_GRACE_S", 0.5)  # no process needs more time
  with watched.start_program(_program(tmp_path, _WITH_CHILD)) as program:
    program.wait(lambda line: line.updates > 0, program.began_s + _TIMEOUT_S)
    before = program.tree.measure()
    deadline_s = time.monotonic() + _TIMEOUT_S
    while program.tree.measure().cpu_s < before.cpu_s + 0.1:
      assert time.monotonic() < deadline_s
    assert before.processes == 2
  assert program.tree.measure().processes == 0


@pytest.mark.parametrize(
  ("until", "in_a_row", "add", "steps"),
  [
    # A mean is that of 20 episodes.
    (5.0, 1, "reporter.add_return(9.0)", 19),
    # The evaluation at step 2 fails, so those at steps 3 to 5 must succeed.
    (8.0, 3, "reporter.evaluate(lambda: [4.0 if step == 2 else 9.0])", 5),
    # The mean reaches the target at step 25, and must stay there for 40 more
    # episodes.
    (8.0, 3, "reporter.add_return(4.0 if step < 10 else 9.0)", 65),
  ],
)
def test_progress_counts_means_in_a_row(tmp_path, until, in_a_row, add, steps):
  text = f"""
    import progress
    reporter = progress.Reporter(until={until}, in_a_row={in_a_row})
    for step in range(100):
      reporter.env_steps = step
      {add}
  """
  done = subprocess.run(
    _program(tmp_path, text),
    capture_output=True,
    text=True,
    env={"PYTHONPATH": str(entries.FOLDER / "common")},
    timeout=_TIMEOUT_S,
    check=True,
  )
  last = watched.parse(done.stdout.splitlines()[-1])
  assert last is not None and last.reached
  assert last.env_steps == steps


def test_variants_of_the_entries_are_in_their_programs():
  for entry in (*entries.PEERS, *entries.OURS.values()):
    text = (entries.FOLDER / entry.folder / "program.py").read_text()
    assert f'"{entry.variant}"' in text, entry.name


def test_page_names_the_releases_of_the_measured_libraries():
  for folder in entries.FOLDERS:
    assert re.fullmatch(r"[a-z0-9-]+ [0-9.]+", entries.get_release(folder))
  raw = _rows(
    "learning", "seconds", {entries.SB3_8: [9.0], entries.SB3_ZOO: [9.0]}
  )
  page = comparison.compare("cartpole", raw).markdown({})
  release = entries.get_release("stable_baselines3")
  assert f"\n\nReleases: {release}.\n\n" in page


# Attribute of a task and the config field that has the same value.
_SHARED = {
  "hidden_sizes": "network.hidden_sizes",
  "learning_rate": "learner.learning_rate",
  "discount": "adder.discount",
}


def _check_values(task, config, **names):
  """Asserts that a task has the values of a config; `names` extends _SHARED."""
  assert task.environment == ids.get_name_and_kwargs(config.environment)[0]
  for name, field in {**_SHARED, **names}.items():
    assert getattr(task, name) == fields.get(config, field), name


def _of(section, *names):
  return {name: f"{section}.{name}" for name in names}


_REPLAY = _of("replay", "capacity", "min_size")


@pytest.mark.parametrize(
  ("name", "names"),
  [
    ("cartpole", {**_REPLAY, **_of("exploration", "epsilon_end")}),
    ("lunarlander", _REPLAY),  # which has a ladder of epsilons
    # Only the speed is measured, soon after the start.
    ("pong", _of("exploration", "epsilon_end", "decay_steps")),
  ],
)
def test_tasks_have_the_values_of_our_presets(name, names):
  config, task = dqn.get_config(name), tasks.TASKS[name]
  names = {**names, "target_period": "learner.target_update_period"}
  _check_values(task, config, batch_size="learner.batch_size", **names)
  ratio = task.batch_size / task.steps_per_update
  assert ratio == config.replay.samples_per_insert


@pytest.mark.parametrize(
  "preset", ["cartpole", "lunarlander", "halfcheetah", "pong"]
)
def test_rollout_tasks_have_the_values_of_our_presets(preset):
  task, config = rollouts.TASKS[f"ppo_{preset}"], ppo.get_config(preset)
  _check_values(
    task,
    config,
    environments="learner.batch_size",
    unroll="adder.unroll",
    **_of("learner", "epochs", "minibatch_size", "gae_lambda", "clip"),
    **_of("learner", "entropy_weight", "value_clip"),
  )
  pixels = preset == "pong"
  assert config.network.activation == ("relu" if pixels else "tanh")
  assert config.network.shared == pixels
  topology = config.topology
  assert task.environments == (
    topology.workers * topology.environments_per_worker
  )
  if not pixels:  # for which only the speed is measured
    assert task.decay_steps == config.learner.decay_steps * task.batch_size
  if task.evaluation_period:
    period = config.evaluation.period_steps * task.batch_size
    assert task.evaluation_period == period


@pytest.mark.parametrize("name", continuous.TASKS)
def test_continuous_tasks_have_the_values_of_our_presets(name):
  algorithm, preset = name.split("_")
  task = continuous.TASKS[name]
  config = catalog.algorithms()[algorithm].get_config(preset)
  names = _of("learner", "batch_size", "tau", "policy_period", "target_noise")
  names |= {**_REPLAY, **_of("learner", "target_noise_clip")}
  names["n_step"] = "adder.n_step"
  if algorithm != "sac":  # SAC's policy samples its actions
    names["noise_std"] = "exploration.noise_std"
  if algorithm == "d4pg":
    names |= _of("network", "atoms", "lowest_return", "highest_return")
  else:  # D4PG has Acme's ratio of updates to steps, also in Slipway's runs
    ratio = task.batch_size / task.steps_per_update
    assert ratio == config.replay.samples_per_insert
  _check_values(task, config, **names)
  assert task.kwargs == ids.get_name_and_kwargs(config.environment)[1]
  assert config.learner.target_update_period == task.policy_period
  assert config.network.critics == (1 if algorithm == "d4pg" else 2)
  # The peers act at random until the replay has its minimum size.
  assert config.exploration.random_steps in (0, task.min_size)
  if task.evaluation_period:
    steps = config.evaluation.period_steps  # updates
    if algorithm != "d4pg":
      steps *= task.steps_per_update
    assert task.evaluation_period == steps
  assert not task.decay_steps


def test_learning_rate_decays_linearly():
  task = continuous.ZOO["sac_lunarlander"]
  rates = [task.learning_rate_at(x) for x in (0, 250_000, 500_000, 600_000)]
  assert rates == pytest.approx([7.3e-4, 3.65e-4, 0.0, 0.0])
  assert continuous.ZOO["sac_pendulum"].learning_rate_at(10**9) == 1e-3


def test_dm_env_of_continuous_actions_is_truncated_without_an_end():
  environment = dm_environment.GymnasiumEnvironment("Pendulum-v1")
  spec = environment.action_spec()
  assert (spec.shape, spec.minimum, spec.maximum) == ((1,), -2.0, 2.0)
  environment.reset()
  steps = [environment.step(spec.generate_value()) for _ in range(200)]
  assert [step.last() for step in steps] == [False] * 199 + [True]
  assert steps[-1].discount == 1.0  # the time limit: values are bootstrapped


def test_peer_that_cannot_be_installed_is_reported(monkeypatch, tmp_path):
  def raise_error(*unused):
    raise installation.NotInstalledError("no wheel for this machine")

  monkeypatch.setattr(installation, "install_for", raise_error)
  (entry,) = [e for e in entries.PEERS if e.name == entries.CLEANRL]
  partial = partial_results.PartialResults(tmp_path, "rows")
  raw = rounds.run("cartpole", [entry], 1, partial)
  assert [row["note"] for row in raw] == [
    "not installed: no wheel for this machine"
  ] * 2
  found = comparison.compare("cartpole", raw)
  assert "not installed: no wheel for this machine" in found.markdown({})
  picture.draw("cartpole", raw, tmp_path / "none.png")
  assert not (tmp_path / "none.png").exists()


def test_venv_is_rebuilt_when_its_lock_changes(monkeypatch, tmp_path):
  monkeypatch.setattr(machine, "ROOT", tmp_path)
  uv, lock = tmp_path / "tools" / "uv.sh", tmp_path / "requirements.txt"
  uv.parent.mkdir()
  uv.write_text(
    f"#!/bin/sh\necho $1 >>{tmp_path}/calls\n"
    f"mkdir -p {tmp_path}/venv/bin\ntouch {tmp_path}/venv/bin/python\n"
  )
  uv.chmod(0o755)
  for text in ("a==1.0\n", "a==1.0\n", "a==2.0\n"):
    lock.write_text(text)
    installation.install(lock, "3.10", tmp_path / "venv")
  calls = (tmp_path / "calls").read_text().split()
  assert calls == ["venv", "pip", "venv", "pip"]
  uv.write_text("#!/bin/sh\necho 'error: no wheel\nhint: none' >&2\nexit 2\n")
  lock.write_text("a==3.0\n")
  with pytest.raises(
    installation.NotInstalledError, match=r"^error: no wheel$"
  ):
    installation.install(lock, "3.10", tmp_path / "venv")


def test_ratios_are_computed_within_a_round():
  raw = _rows(
    "speed",
    "env_steps_per_s",
    {
      "Slipway, uniform": [20.0, 400.0, 90.0],
      "Slipway, prioritized": [10.0, 80.0, 70.0],
      entries.SB3_8: [10.0, 100.0, 30.0],
      entries.ACME_DISTRIBUTED: [1.0, 10.0, 10.0],
    },
  )
  assert medians.ratio(raw, entries.SB3_8, "env_steps_per_s") == 3.0
  assert medians.ratio(raw, entries.ACME_DISTRIBUTED, "env_steps_per_s") == 8.0
  assert medians.ratio(raw, entries.CLEANRL, "env_steps_per_s") is None
  goals = comparison.compare("cartpole", raw).goals
  assert [goal.endswith(": reached.") for goal in goals] == [True, True]


def test_goal_for_all_seeds_is_that_of_the_slowest():
  ours = entries.OURS["sac"].name
  for slowest, reached in ((39.0, True), (41.0, False), (None, False)):
    raw = _rows("learning", "seconds", {ours: [10.0, 20.0]})
    raw += _rows("learning", "seconds", {ours: [slowest]}, note=">300")
    (goal,) = comparison.compare("sac_pendulum", raw).goals
    assert goal.endswith(": reached.") == reached


def test_learning_goal_of_each_preset_is_to_be_ahead_of_all_peers():
  first, second = entries.OURS["apex_dqn"].name, entries.OURS["dqn"].name
  for mine, reached in ((9.0, True), (11.0, False)):
    raw = _rows(
      "learning",
      "seconds",
      {
        first: [mine],
        second: [8.0],
        entries.SB3_8: [10.0],
        entries.CLEANRL: [30.0],
      },
    )
    *_, goal, second_goal = comparison.compare("cartpole", raw).goals
    assert goal.endswith(": reached.") == reached
    assert second_goal.endswith(": reached.")


def test_runs_over_the_cap_are_slower_than_all_others():
  raw = _rows("learning", "seconds", {entries.SB3_8: [10.0]})
  cap = f">{entries.CAPS_S['cartpole']:.0f}"
  raw += _rows("learning", "seconds", {entries.CLEANRL: [None]}, note=cap)
  assert medians.median_seconds(raw, entries.SB3_8) == 10.0
  assert medians.median_seconds(raw, entries.CLEANRL) == math.inf
  assert medians.median_seconds(raw, entries.RLLIB_DISTRIBUTED) is None
  page = comparison.compare("cartpole", raw).markdown({})
  assert f"{cap} | 0 of 1" in page
