"""Comparison with other libraries: output lines, runs and tables."""

import math
import pathlib
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
  tree,
  watched,
)
from benchmarks.peers.common import continuous, progress, rollouts, tasks
from slipway.configs import catalog, dqn, ppo
from slipway.environments import ids

_COMMON = entries.FOLDER / "common"
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


def _run_until_reached(command: list[str]) -> watched.Line:
  """Runs a program that reaches its target; returns its last line."""
  done = subprocess.run(
    command,
    capture_output=True,
    text=True,
    env={"PYTHONPATH": str(_COMMON)},
    timeout=_TIMEOUT_S,
  )
  assert done.returncode == 0
  last = watched.parse(done.stdout.splitlines()[-1])
  assert last is not None
  assert last.reached
  return last


def _rows(measured, column, values, note=""):
  """Returns a row per entry and seed; `values` has a list per entry."""
  return [
    rounds.make_row(
      "cartpole", entry, measured, seed, **{column: value}, note=note
    )
    for entry, of_seeds in values.items()
    for seed, value in enumerate(of_seeds, 1)
  ]


def test_line_of_the_protocol_is_read():
  line = watched.parse(
    '{"at_s": 2.5, "env_steps": 80, "updates": 10, "return": null, '
    '"evaluated": 9.5, "evaluated_at": 70, "paused_s": 1.0, "reached": false}'
  )
  assert line == watched.Line(2.5, 80, 10, None, 9.5, 70, 1.0, False)


@pytest.mark.parametrize("text", ["", "SPS: 100", "7", '{"env_steps": 1}'])
def test_other_output_is_ignored(text):
  assert watched.parse(text) is None


def test_speed_of_a_program_is_measured(tmp_path):
  with watched.start_program(_program(tmp_path, _COUNTING)) as program:
    found = speed.measure(program, 2.0, _TIMEOUT_S)
  assert 0 < found.env_steps_per_cpu_s < math.inf
  assert found.env_steps_per_s / found.updates_per_s == pytest.approx(8, 0.1)
  assert found.processes == 1
  assert found.memory_mib > 1


def test_program_that_makes_no_steps_has_no_speed(tmp_path):
  idle = _COUNTING.replace("reporter.env_steps += 80", "pass")
  with (
    watched.start_program(_program(tmp_path, idle)) as program,
    pytest.raises(watched.FailedError, match="no step in 1 s"),
  ):
    speed.measure(program, 1.0, _TIMEOUT_S)


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


def test_tree_keeps_the_time_of_processes_that_have_ended():
  process_tree = tree.Tree()
  process = subprocess.Popen(
    [sys.executable, "-c", "while True: pass"], env=process_tree.environment
  )
  deadline_s = time.monotonic() + _TIMEOUT_S
  while process_tree.measure().cpu_s < 0.2:
    assert time.monotonic() < deadline_s
  process.kill()
  process.wait()
  assert process_tree.measure().cpu_s >= 0.2
  assert process_tree.measure().processes == 0


def test_progress_needs_20_episodes(tmp_path):
  command = _program(
    tmp_path,
    """
      import progress
      reporter = progress.Reporter(until=5.0)
      for value in [9.0] * 19:
        reporter.add_return(value)
      reporter.env_steps = 19
      reporter.add_return(9.0)
    """,
  )
  last = _run_until_reached(command)
  assert last.env_steps == 19
  assert last.mean_return == 9.0


@pytest.mark.parametrize(
  ("add", "steps"),
  [
    # The evaluation at step 2 fails, so those at steps 3 to 5 must succeed.
    ("reporter.evaluate(lambda: [4.0 if step == 2 else 9.0])", 5),
    # The mean reaches the target at step 25, and must stay there for 40 more
    # episodes.
    ("reporter.add_return(4.0 if step < 10 else 9.0)", 65),
  ],
)
def test_progress_counts_means_in_a_row(tmp_path, add, steps):
  command = _program(
    tmp_path,
    f"""
      import progress
      reporter = progress.Reporter(until=8.0, in_a_row=3)
      for step in range(100):
        reporter.env_steps = step
        {add}
    """,
  )
  last = _run_until_reached(command)
  assert last.env_steps == steps


def test_variants_of_the_entries_are_in_their_programs():
  for entry in (*entries.PEERS, *entries.OURS.values()):
    text = (entries.FOLDER / entry.folder / "program.py").read_text()
    assert f'"{entry.variant}"' in text, entry.name


def test_unknown_variant_is_rejected():
  with pytest.raises(SystemExit):
    progress.parse_arguments(("a",), ["--task=cartpole", "--variant=b"])


@pytest.mark.parametrize("name", ["cartpole", "lunarlander", "pong"])
def test_tasks_have_the_values_of_our_presets(name):
  config, task = dqn.get_config(name), tasks.TASKS[name]
  assert task.environment == ids.get_name_and_kwargs(config.environment)[0]
  assert task.hidden_sizes == config.network.hidden_sizes
  assert task.batch_size == config.learner.batch_size
  assert task.learning_rate == config.learner.learning_rate
  assert task.target_period == config.learner.target_update_period
  assert task.discount == config.adder.discount
  if name != "lunarlander":  # which has a ladder of epsilons
    assert task.epsilon_end == config.exploration.epsilon_end
    assert task.decay_steps == config.exploration.decay_steps
  assert (
    task.batch_size / task.steps_per_update == config.replay.samples_per_insert
  )
  # For Pong only the speed is measured, soon after the start.
  if name != "pong":
    assert task.capacity == config.replay.capacity
    assert task.min_size == config.replay.min_size


@pytest.mark.parametrize(
  "preset", ["cartpole", "lunarlander", "halfcheetah", "pong"]
)
def test_rollout_tasks_have_the_values_of_our_presets(preset):
  task, config = rollouts.TASKS[f"ppo_{preset}"], ppo.get_config(preset)
  learner = config.learner
  assert task.environment == ids.get_name_and_kwargs(config.environment)[0]
  assert task.hidden_sizes == config.network.hidden_sizes
  pixels = preset == "pong"
  assert config.network.activation == ("relu" if pixels else "tanh")
  assert config.network.shared == pixels
  assert task.environments == learner.batch_size
  topology = config.topology
  assert task.environments == (
    topology.workers * topology.environments_per_worker
  )
  assert task.unroll == config.adder.unroll
  assert task.discount == config.adder.discount
  for name in (
    "epochs",
    "minibatch_size",
    "learning_rate",
    "gae_lambda",
    "clip",
    "entropy_weight",
    "value_clip",
  ):
    assert getattr(task, name) == learner[name], name
  # For Pong only the speed is measured, soon after the start.
  if not pixels:
    assert task.decay_steps == learner.decay_steps * task.batch_size
  if task.evaluation_period:
    period = config.evaluation.period_steps * task.batch_size
    assert task.evaluation_period == period


@pytest.mark.parametrize("name", continuous.TASKS)
def test_continuous_tasks_have_the_values_of_our_presets(name):
  algorithm, preset = name.split("_")
  task = continuous.TASKS[name]
  config = catalog.algorithms()[algorithm].get_config(preset)
  network, learner, replay = config.network, config.learner, config.replay
  assert (task.environment, task.kwargs) == ids.get_name_and_kwargs(
    config.environment
  )
  assert task.hidden_sizes == network.hidden_sizes
  for field in (
    "batch_size",
    "learning_rate",
    "tau",
    "policy_period",
    "target_noise",
    "target_noise_clip",
  ):
    assert getattr(task, field) == learner[field], field
  assert learner.target_update_period == task.policy_period
  assert network.critics == (1 if algorithm == "d4pg" else 2)
  assert (task.discount, task.n_step) == (
    config.adder.discount,
    config.adder.n_step,
  )
  assert (task.capacity, task.min_size) == (replay.capacity, replay.min_size)
  # The peers act at random until the replay has its minimum size.
  assert config.exploration.random_steps in (0, task.min_size)
  if algorithm != "sac":  # SAC's policy samples its actions
    assert task.noise_std == config.exploration.noise_std
  if algorithm == "d4pg":
    for field in ("atoms", "lowest_return", "highest_return"):
      assert getattr(task, field) == network[field], field
  else:  # D4PG has Acme's ratio of updates to steps, also in Slipway's runs
    assert task.batch_size / task.steps_per_update == replay.samples_per_insert
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


def _installer(monkeypatch, folder: pathlib.Path, script: str) -> pathlib.Path:
  """Replaces uv by a script; returns the path of a lock for it."""
  uv = folder / "tools" / "uv.sh"
  uv.parent.mkdir()
  uv.write_text("#!/bin/sh\n" + textwrap.dedent(script))
  uv.chmod(0o755)
  monkeypatch.setattr(machine, "ROOT", folder)
  lock = folder / "peer" / "requirements.txt"
  lock.parent.mkdir()
  lock.write_text("a==1.0\n")
  return lock


def test_first_line_of_an_installers_error_is_reported(monkeypatch, tmp_path):
  lock = _installer(
    monkeypatch,
    tmp_path,
    """
      echo "error: no wheel" >&2
      echo "hint: another Python" >&2
      exit 2
    """,
  )
  with pytest.raises(
    installation.NotInstalledError, match=r"^error: no wheel$"
  ):
    installation.install(lock, "3.10", tmp_path / "venv")


def test_venv_is_rebuilt_when_its_lock_changes(monkeypatch, tmp_path):
  lock = _installer(
    monkeypatch,
    tmp_path,
    f"""
      echo "$1" >>{tmp_path}/calls
      mkdir -p {tmp_path}/venv/bin
      touch {tmp_path}/venv/bin/python
    """,
  )
  for text in ("a==1.0\n", "a==1.0\n", "a==2.0\n"):
    lock.write_text(text)
    installation.install(lock, "3.10", tmp_path / "venv")
  calls = (tmp_path / "calls").read_text().split()
  assert calls == ["venv", "pip", "venv", "pip"]


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


def test_page_of_actor_critic_has_the_ratio_of_updates():
  ours = entries.OURS["td3"].name
  raw = _rows(
    "speed",
    "updates_per_s",
    {ours: [30.0], entries.SB3_TD3: [10.0], entries.SBX_TD3: [30.0]},
  )
  found = comparison.compare("td3_halfcheetah", raw)
  ratios = [row["Slipway / it, updates/s"] for row in found.medians]
  assert ratios == [None, 3.0, 1.0]
  assert [goal.endswith(": reached.") for goal in found.goals] == [True, False]
  assert "3.0 times the updates per second of Stable-" in found.goals[0]


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
  assert medians.median_seconds(raw, entries.RLLIB_APEX) is None
  page = comparison.compare("cartpole", raw).markdown({})
  assert f"{cap} | 0 of 1" in page


def test_picture_is_drawn(tmp_path):
  raw = _rows(
    "speed", "env_steps_per_s", {"Slipway, uniform": [9.0], "CleanRL": [3.0]}
  )
  raw += _rows("learning", "seconds", {"CleanRL": [30.0]})
  picture.draw("cartpole", raw, tmp_path / "a.png")
  assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
