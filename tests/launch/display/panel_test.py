"""Tests of the panel: its content at each size, and the plain lines."""

import io
import os
import pty
import re
import sys

import msgspec
import pytest
import rich.console

from slipway.launch.display import panel, status_text
from slipway.launch.runs import run_status

STATUS = run_status.RunStatus(
  name="apex-cartpole-3",
  mode="sync",
  phase="running",
  wall_s=83.4,
  start_up_s=9.1,
  env_steps=123_456,
  env_steps_lost=128,
  trainer_steps=15_432,
  trainer_steps_lost=40,
  items=run_status.ItemsStatus(123_100, 122_980, 17),
  rates=run_status.RatesStatus(3217.7, 4000.0, 401.3, 3190.4),
  reconnects=5,
  replay=run_status.ReplayStatus(42_310, 50_000, 123_000, 987_000, 8.024, 8.0),
  variables=run_status.VariablesStatus(771, 0.2134, 0.04931, 0.05),
  evaluation=run_status.EvaluationStatus(17, 312.35, 20, 301.5, 340.05),
  training_return=188.2,
  limits=run_status.Limits(
    environment_steps=1_000_000, wall_clock_s=1800.0, target_return=475.0
  ),
  nodes={
    "trainer": run_status.NodesStatus(1, 1),
    "worker": run_status.NodesStatus(3, 4),
    "evaluator": run_status.NodesStatus(1, 1),
  },
  waiting="workers wait for the trainer",
  proxy=run_status.ProxyStatus(bytes_up_per_s=1.83e6, connections=4),
  restarts=2,
  resumes=1,
  snapshots=run_status.SnapshotsStatus(3, 12.3, 0.4),
)
ALL_UP = {"worker": run_status.NodesStatus(1, 1)}


def changed(status=STATUS, **fields):
  """Returns a status with changed fields.

  Args:
    status: the status to copy.
    **fields: new values by field name; a dict changes fields of a section.
  """
  for name, value in fields.items():
    whole = ("nodes", "machines", "failed_hooks")
    if isinstance(value, dict) and name not in whole:
      section = getattr(status, name)
      fields[name] = msgspec.structs.replace(section, **value)
  return msgspec.structs.replace(status, **fields)


# texts that the panel of STATUS must show
SHOWN = (
  "apex-cartpole-3",
  "running",
  "sync",
  "0:01:23",
  "123,456 steps",
  "128 lost",
  "15,432 steps",
  "40 lost",
  "3,190 confirmed/s",
  "17 lost",
  "42,310 of 50,000 items",
  "85 % full",
  "12 s old",
  "3 written",
  "3,220 steps/s",
  "4,000 target",
  "401 updates/s",
  "8.02 samples/insert",
  "8.00 target",
  "0.0493 loads/update",
  "0.05 target",
  "0.21 s old on average",
  "771 version",
  "1.83 MB/s to replay",
  "4 streams",
  "188.20 mean return",
  "312.35 mean return",
  "301.50 last 10",
  "340.05 of 17",
  "475.00 target",
  "5 min to 1,000,000 environment steps",
  "29 min to 0:30:00 of wall-clock time",
  "worker 3/4",
  "2 of nodes 5 of streams 1 of the run",
  "workers wait for the trainer",
)


def make_console(width=80, height=40, terminal=True, encoding="utf-8"):
  file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
  return rich.console.Console(
    file=file,
    width=width,
    height=height,
    force_terminal=terminal,
    color_system=None,
    _environ={"TERM": "xterm"},
  )


def read_output(console):
  console.file.flush()
  return console.file.buffer.getvalue().decode(console.file.encoding)


def render_lines(status, **kwargs):
  console = make_console(**kwargs)
  console.print(panel.render(status, console))
  return read_output(console).rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("height", [24, 40])
def test_everything_is_readable(width, height):
  lines = render_lines(STATUS, width=width, height=height)
  text = " ".join(" ".join(lines).split())
  for shown in SHOWN:
    assert shown in text
  assert "…" not in text
  assert {len(line) for line in lines} == {min(width, 80)}


def test_a_terminal_without_unicode():
  assert "* running" in render_lines(STATUS, encoding="ascii")[0]


@pytest.mark.parametrize("terminal", [True, False])
def test_no_value_is_needed(terminal):
  console = make_console(terminal=terminal)
  with panel.Panel(console) as shown:
    shown.update(run_status.RunStatus())
    shown.update(run_status.RunStatus(mode="sync", env_steps=7))
  assert "run" in read_output(console)


@pytest.mark.parametrize("height", [24, 27, 40])
def test_the_panel_keeps_its_height_while_running(height):
  empty = run_status.RunStatus(
    limits=STATUS.limits,
    nodes=STATUS.nodes,
    proxy=run_status.ProxyStatus(),
    replay=run_status.ReplayStatus(),
  )
  nothing = changed(rates={"env_steps_per_s_target": 0.0}, resumes=0)
  lines = [render_lines(s, height=height) for s in (empty, nothing, STATUS)]
  assert len({len(each) for each in lines}) == 1
  # Each label keeps its position.
  labels = [[line[3:14].strip() for line in each[1:-1]] for each in lines]
  assert labels[0] == labels[1] == labels[2]


def test_a_queue_shows_what_was_consumed():
  status = changed(replay={"is_queue": True})
  text = " ".join(" ".join(render_lines(status)).split())
  assert "sampling 42,310 in queue 987,000 consumed" in text
  assert "samples/insert" not in text
  line = status_text.progress_line(status)
  assert "42,310 of 50,000 items in queue, 987,000 consumed" in line
  assert "samples per insert" not in line


def test_a_run_without_workers_has_no_worker_rows():
  status = changed(nodes={"trainer": run_status.NodesStatus(1, 1)}, proxy=None)
  status = msgspec.structs.replace(status, replay=None)
  text = " ".join(render_lines(status))
  for label in ("environment ", "items ", "replay ", "sampling", "speed",
                "loading", "training"):  # fmt: skip
    assert f" {label}" not in text.partition("time left")[0]
  assert "15,432" in text
  line = status_text.progress_line(status)
  assert "replay" not in line and "loads" not in line


# rows of the terminal, empty rows in the panel
ROWS = [(40, 5), (29, 5), (28, 3), (27, 3), (26, 0), (24, 0)]


@pytest.mark.parametrize(("height", "empty"), ROWS)
def test_empty_rows_are_shown_if_there_is_room(height, empty):
  waiting = (
    "2 of 2 workers wait for the replay server at localhost:7000, which does "
    "not answer, since 12:03:11 (14 s)"
  )
  lines = render_lines(
    changed(limits={"trainer_steps": 100_000}, waiting=waiting), height=height
  )
  assert "(14 s)" in "\n".join(lines)
  assert len(lines) <= height
  assert sum(not line.strip("│ ") for line in lines) == empty


def test_a_stall_stands_out():
  waiting = (
    "nothing moves since 12:03:11 (31 s): workers wait to insert into table "
    "'transitions': the trainer must sample 8 more items first; 1,500 inserted "
    "x 8 - 0 sampled = 12,000 in 4,000 to 12,000; 1,500 items of at least 1,000"
  )
  stalled = changed(
    limits={"trainer_steps": 100_000}, waiting=waiting, stalled_s=31.0
  )
  for height in (24, 40):
    lines = render_lines(stalled, height=height)
    text = " ".join(" ".join(lines).replace("│", " ").split())
    assert text.count(waiting) == 1
    assert len(lines) <= height
    assert ("time left" in text) == (height == 40)
  console = make_console()
  console._color_system = rich.console.ColorSystem.STANDARD
  for stalled_s, yellow in ((31.0, True), (None, False)):
    status = changed(nodes=ALL_UP, items={"lost": 0}, stalled_s=stalled_s)
    with console.capture() as captured:
      console.print(panel.render(status, console))
    assert ("\x1b[33mworkers wait" in captured.get()) == yellow


STALL = (
  "nothing moves since 12:03:11 (31 s): workers wait to insert into table "
  "'transitions': the trainer must sample 8 more items first; 1,500 inserted x "
  "8 - 0 sampled = 12,000 in 4,000 to 12,000; 1,500 items of at least 1,000"
)
MANY = {
  role: run_status.NodesStatus(12, 12)
  for role in ("replay", "trainer", "proxy", "worker", "evaluator")
}
# changed fields of runs whose panels need many rows
CROWDED = [
  {},
  {"nodes": MANY, "limits": {"episodes": 500, "trainer_steps": 9}},
  {"waiting": STALL, "stalled_s": 31.0, "nodes": MANY},
  {"machines": {"home": run_status.MachineStatus("10.0.0.1", False)},
   "unwritten": ["curves.csv"], "failed_hooks": {"a:b": "ValueError: " * 9}},
  {"phase": "stopping", "stopped_because": "environment_steps",
   "waiting": STALL},
  {"phase": "stopping", "stopped_because": "environment_steps"},
]  # fmt: skip


@pytest.mark.parametrize("fields", CROWDED)
@pytest.mark.parametrize(
  ("width", "height"), [(60, 20), (80, 20), (60, 24), (80, 24)]
)
def test_a_small_terminal_shows_the_diagnosis(width, height, fields):
  status = changed(**fields)
  lines = render_lines(status, width=width, height=height)
  assert len(lines) <= height
  assert lines[-1].startswith("╰")  # nothing is cut off
  text = " ".join(" ".join(lines).replace("│", " ").split())
  shown = status.waiting or "the limit of environment"
  assert shown in text
  assert "123,456 steps" in text and "312.35 mean return" in text


def test_limits_that_end_the_run_together():
  limits = {"combine": "all", "evaluations_without_improvement": 10}
  status = changed(limits=limits, evaluation={"without_improvement": 3})
  text = " ".join(" ".join(render_lines(status)).replace("│", " ").split())
  assert "all of 5 min to 1,000,000 environment steps" in text
  assert "3 of 10 evaluations without improvement nodes up" in text
  line = status_text.progress_line(status)
  assert "wall-clock time and 3 of 10 evaluations without" in line


def test_a_failed_hook_is_shown_in_its_row():
  status = changed(failed_hooks={"mine:notify": "ValueError: boom"})
  shown = "hook mine:notify failed: ValueError: boom"
  (line,) = (line for line in render_lines(status) if "hook" in line)
  assert line.strip("│ ").split("  ")[0] == "hooks" and shown in line
  assert f"; {shown}; waiting" in status_text.progress_line(status)


def test_a_terminal_that_changes_its_size_is_cleared():
  console = make_console()
  seen = ""
  with panel.Panel(console) as shown:
    for width, clears in ((80, False), (80, False), (60, True), (60, False)):
      console.size = rich.console.ConsoleDimensions(width, 24)
      shown.update(STATUS)
      new, seen = read_output(console).removeprefix(seen), read_output(console)
      assert ("\x1b[2J" in new) == clears
    lines = new.split("\n")
    assert {len(line) for line in lines if line.startswith("│")} == {60}


# section and field of a target, label of its row, text of the value 2.0, and
# text of the plain line
TARGETS = [
  ("rates", "env_steps_per_s_target", "speed", "2", "(3,220/s, {})"),
  (
    "replay",
    "samples_per_insert_target",
    "sampling",
    "2.00",
    "8.02 samples per insert ({})",
  ),
  (
    "variables",
    "loads_per_trainer_step_target",
    "loading",
    "2",
    "0.0493 loads per trainer step ({})",
  ),
]


@pytest.mark.parametrize(("section", "key", "label", "two", "words"), TARGETS)
def test_each_rate_is_shown_next_to_its_target(section, key, label, two, words):
  for value, text in ((2.0, f"{two} target"), (0.0, "no limit")):
    status = changed(**{section: {key: value}})
    (line,) = (line for line in render_lines(status) if label in line)
    assert line.rstrip("│ ").endswith(f" {text}")
    assert words.format(text) in status_text.progress_line(status)


NOTHING_LOST = changed(
  nodes=ALL_UP, env_steps_lost=0, trainer_steps_lost=0, items={"lost": 0}
)
LOSSES = [
  {"env_steps_lost": 7},
  {"trainer_steps_lost": 7},
  {"items": {"lost": 7}},
]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_stands_out(loss):
  console = make_console()
  console._color_system = rich.console.ColorSystem.STANDARD
  for lost, status in ((0, NOTHING_LOST), (7, changed(NOTHING_LOST, **loss))):
    with console.capture() as captured:
      console.print(panel.render(status, console))
    text = captured.get()
    assert text.count("33m") == (lost > 0)
    assert len(re.findall("33m *7\x1b", text)) == (lost > 0)


def test_snapshots_that_were_not_uploaded_stand_out():
  console = make_console(width=100, height=40)
  for failures in (0, 4):
    status = changed(snapshots={"upload_failures": failures})
    with console.capture() as captured:
      console.print(panel.render(status, console))
    assert ("not uploaded" in captured.get()) == (failures > 0)
    line = status_text.progress_line(status)
    assert ("4 snapshots not uploaded" in line) == (failures > 0)


@pytest.mark.parametrize("mode", ["async", "sync", "single"])
def test_an_unusual_mode_is_shown_in_the_title(mode):
  status = changed(mode=mode)
  shown = f"{mode}  " if mode in ("sync", "single") else ""
  assert f"● running  {shown}0:01:23" in render_lines(status)[0]
  phase = f"running, mode {mode}" if shown else "running"
  assert status_text.phase_line(status) == f"0:01:23 apex-cartpole-3: {phase}"


def test_a_run_that_was_never_resumed_shows_no_resumes():
  text = "\n".join(render_lines(changed(resumes=0)))
  assert "2 of nodes" in text
  assert "of the run" not in text


def test_no_proxy():
  text = "\n".join(render_lines(changed(proxy=None)))
  assert "proxy" not in text
  assert "MB/s" not in text


MACHINES = {
  "home": run_status.MachineStatus("10.0.0.1", True, 2),
  "workers/1": run_status.MachineStatus("10.0.0.2", True),
}


def test_machines_and_rejected_peers_are_counted():
  text = " ".join(render_lines(changed(machines=MACHINES)))
  assert "2/2 up" in text
  assert "2 unauthenticated peers rejected" in text
  assert "down" not in text.split("machines")[1].split("restarts")[0]
  assert "machines" not in " ".join(render_lines(STATUS))


def test_a_lost_machine_is_named():
  lost = run_status.MachineStatus("10.0.0.2", False)
  machines = {**MACHINES, "workers/1": lost}
  text = " ".join(render_lines(changed(machines=machines)))
  assert "1/2 up" in text
  assert "workers/1 on 10.0.0.2 is down" in text


@pytest.mark.parametrize("height", [24, 40])
def test_machines_keep_their_row(height):
  heights = {
    len(render_lines(changed(machines=MACHINES, waiting=w), height=height))
    for w in (None, "workers wait for the trainer")
  }
  assert len(heights) == 1
  assert heights.pop() <= height


def test_a_paused_run_is_shown_as_paused():
  status = changed(phase="paused", waiting="paused", mode="async")
  lines = render_lines(status)
  assert "● paused" in lines[0]
  assert re.search(r"waiting +paused ", "\n".join(lines))
  assert status_text.phase_line(status) == "0:01:23 apex-cartpole-3: paused"


def test_a_stopped_run_shows_the_reason_and_no_time_left():
  status = changed(phase="stopped", stopped_because="target_return")
  text = "\n".join(render_lines(status))
  assert "the target return was reached" in text
  assert "time left" not in text
  assert "waiting" not in text


def test_a_terminal_is_drawn_in_place():
  console = make_console()
  with panel.Panel(console) as shown:
    shown.update(STATUS)
    once = read_output(console).count("\n")
    shown.update(changed(env_steps=200_000))
  text = read_output(console)
  assert "\x1b[1A" in text  # the cursor moves up
  assert "200,000 steps" in text
  assert once == len(render_lines(STATUS)) - 1


# Changes of the status, and the lines that each prints: (p)hase, (e)valuation,
# pro(g)ress.
LINES = [
  [({"wall_s": 0.0, "count": 0}, "pg")],
  [  # a resumed run
    ({"wall_s": 0.0, "count": 4, "episodes": 0}, "pg"),
    ({"wall_s": 1.0, "count": 5, "episodes": 20}, "e"),
  ],
  [
    ({"wall_s": 0.0, "count": 0, "phase": "starting"}, "pg"),
    ({"wall_s": 4.9}, ""),
    ({"wall_s": 5.0}, "g"),
    ({"wall_s": 9.9}, ""),
    ({"wall_s": 10.1}, "g"),
    ({"wall_s": 15.0}, ""),
    ({"wall_s": 15.1}, "g"),
  ],
  [
    ({"wall_s": 1.0, "count": 0, "phase": "starting"}, "pg"),
    ({"wall_s": 2.0, "phase": "running"}, "p"),
    ({"wall_s": 3.0, "count": 1}, "e"),
    ({"wall_s": 4.0}, ""),
    ({"wall_s": 6.0, "count": 2}, "eg"),
    ({"wall_s": 7.0, "phase": "stopping"}, "p"),
    ({"wall_s": 8.0, "phase": "stopped"}, "pg"),
  ],
]


@pytest.mark.parametrize("steps", LINES)
def test_plain_lines(steps):
  console = make_console(width=40, terminal=False)
  status = STATUS
  expected = []
  makers = {
    "p": status_text.phase_line,
    "e": status_text.evaluation_line,
    "g": status_text.progress_line,
  }
  with panel.Panel(console) as shown:
    for change, kinds in steps:
      evaluation = {
        name: change[name] for name in ("count", "episodes") if name in change
      }
      fields = {k: v for k, v in change.items() if k not in evaluation}
      status = changed(status, evaluation=evaluation, **fields)
      shown.update(status)
      expected += [makers[kind](status) for kind in kinds]
  assert read_output(console).splitlines() == expected


def test_a_plain_line_shows_everything():
  assert status_text.progress_line(STATUS) == (
    "0:01:23 apex-cartpole-3: 123,456 environment steps (3,220/s, "
    "4,000 target); "
    "15,432 trainer steps (401/s); replay 42,310 of 50,000 items, 8.02 samples "
    "per insert (8.00 target); variables 0.21 s old, 0.0493 loads per trainer "
    "step (0.05 target); mean return 312.35 "
    "(mean of last 10 301.50, best 340.05, 475.00 target); "
    "snapshot 12 s old, 3 written; "
    "5 min to 1,000,000 environment steps; "
    "29 min to 0:30:00 of wall-clock time; worker 3 of 4 up; "
    "17 items lost; 128 environment steps lost; 40 trainer steps lost; "
    "5 reconnects; 2 restarts; 1 resumes; "
    "waiting: workers wait for the trainer"
  )
  assert status_text.evaluation_line(STATUS) == (
    "0:01:23 apex-cartpole-3: evaluation 17: mean return 312.35 over 20 "
    "episodes (mean of last 10 301.50, best 340.05, 475.00 target) after "
    "123,456 environment steps"
  )


def test_a_plain_line_omits_zero_counts():
  status = changed(
    NOTHING_LOST,
    reconnects=0,
    restarts=0,
    resumes=0,
    snapshots={"written": 0},
  )
  line = status_text.progress_line(status)
  for word in ("lost", "reconnects", "restarts", "resumes", "snapshot"):
    assert word not in line


def test_a_notebook_gets_no_terminal_codes(monkeypatch, capsys):
  monkeypatch.setenv("FORCE_COLOR", "1")  # as ipykernel does
  with panel.Panel() as shown:
    shown.update(STATUS)
  assert "\x1b" not in capsys.readouterr().out


def test_a_pipe_without_a_reader_ends_the_output_only(monkeypatch):
  reader, writer = os.pipe()
  os.close(reader)
  with open(writer, "w") as output:  # closes it, as Python's exit does
    monkeypatch.setattr(sys, "stdout", output)
    with panel.Panel() as shown:
      shown.update(STATUS)
      shown.update(changed(phase="stopped"))


@pytest.mark.parametrize("drawn_before", [False, True])
def test_a_terminal_that_is_closed_ends_the_output_only(
  drawn_before, monkeypatch
):
  ours, theirs = pty.openpty()
  monkeypatch.setenv("TERM", "xterm")
  with open(theirs, "w") as output:
    monkeypatch.setattr(sys, "stdout", output)
    with panel.Panel() as shown:
      if drawn_before:
        shown.update(STATUS)
      os.close(ours)
      shown.update(changed(phase="stopped"))


@pytest.mark.parametrize("width", [60, 80])
def test_evaluations_at_the_target_are_counted(width):
  for at_target, label in ((0, "target"), (2, "target 2/3"), (5, "target 3/3")):
    status = changed(
      limits={"target_evaluations": 3}, evaluation={"at_target": at_target}
    )
    (line,) = (
      line for line in render_lines(status, width=width) if "best" in line
    )
    assert line.rstrip("│ ").endswith(f"475.00 {label}")
    assert f"475.00 {label})" in status_text.evaluation_line(status)


@pytest.mark.parametrize(
  ("metrics", "shown"),
  [
    ({}, "update -"),
    (
      {"value_loss": 3.2, "explained_variance": 0.914, "kl": 0.00421,
       "entropy": 0.6139, "policy_age_versions_mean": 1.0},
      "update entropy 0.61 KL 0.0042 age 1 explained 0.91",
    ),
    (
      {"q_mean": 1234.5, "td_error_abs_mean": None, "loss": 1.0},
      "update Q 1,234.50 TD error -",
    ),
    # The user's own algorithm may have other metrics.
    (
      {"surprise": 2e-7, "policy_age_versions_mean": 2.0},
      "update surprise 2e-07 policy_age_versions_mean 2",
    ),
  ],
)  # fmt: skip
def test_metrics_of_the_last_update_are_shown(metrics, shown):
  status = msgspec.structs.replace(STATUS, metrics=metrics)
  text = " ".join(" ".join(render_lines(status)).replace("│", " ").split())
  assert f"{shown} time left" in text
  # A small panel omits the metrics first.
  assert "│  update" not in " ".join(render_lines(status, height=20))


def test_advice_is_shown_while_no_node_waits():
  sentence = "TD errors are clipped"
  status = changed(waiting=None, advice=["an older one", sentence])
  text = " ".join(" ".join(render_lines(status)).split())
  assert f"advice {sentence}" in text
  assert "waiting" not in text
  assert sentence not in " ".join(render_lines(changed(advice=[sentence])))
  line = status_text.advice_line(status, sentence)
  assert line == f"0:01:23 apex-cartpole-3: advice: {sentence}"
