"""Panel: what is shown, at which width, and when a plain line is printed."""

import io
import math
import re

import pytest
import rich.console

from launch.display import panel, status_text

STATUS = {
  "name": "apex-cartpole-3",
  "mode": "sync",
  "phase": "running",
  "stopped_because": None,
  "wall_s": 83.4,
  "start_up_s": 9.1,
  "env_steps": 123_456,
  "env_steps_lost": 128,
  "env_steps_per_s": 3217.7,
  "environment_steps_per_s_asked": 4000.0,
  "trainer_steps": 15_432,
  "trainer_steps_lost": 40,
  "trainer_steps_per_s": 401.3,
  "items_confirmed": 122_980,
  "items_lost": 17,
  "items_per_s": 3190.4,
  "reconnects": 5,
  "replay_size": 42_310,
  "replay_capacity": 50_000,
  "inserted": 123_000,
  "sampled": 987_000,
  "samples_per_insert": 8.024,
  "samples_per_insert_asked": 8.0,
  "variables_version": 771,
  "variables_age_s": 0.2134,
  "variable_loads_per_trainer_step": 0.04931,
  "variable_loads_per_trainer_step_asked": 0.05,
  "eval_return": 312.35,
  "eval_episodes": 20,
  "best_eval_return": 340.05,
  "evaluations": 17,
  "training_return": 188.2,
  "limits": {
    "environment_steps": 1_000_000,
    "trainer_steps": 0,
    "wall_clock_s": 1800.0,
    "target_return": 475.0,
  },
  "nodes": {"trainer": [1, 1], "worker": [3, 4], "evaluator": [1, 1]},
  "waiting": "workers wait for the trainer",
  "metrics": {},
  "proxy": {"bytes_up_per_s": 1.83e6, "connections": 4},
  "restarts": 2,
  "resumes": 1,
  "snapshots": 3,
  "snapshot_age_s": 12.3,
  "snapshot_pause_s": 0.4,
}

# What a reader looks for, as it is written.
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
  "4,000 asked",
  "401 updates/s",
  "8.02 samples/insert",
  "8.00 asked",
  "0.0493 loads/update",
  "0.05 asked",
  "0.21 s old on average",
  "771 version",
  "1.83 MB/s to replay",
  "4 streams",
  "188.20 mean return",
  "312.35 mean return",
  "20 episodes",
  "340.05 of 17",
  "475.00 target",
  "5 min to 1,000,000 environment steps",
  "29 min to 0:30:00 of wall-clock time",
  "worker 3/4",
  "2 of nodes 5 of streams 1 of the run",
  "workers wait for the trainer",
)


def console_of(width=80, height=40, terminal=True, encoding="utf-8"):
  file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
  return rich.console.Console(
    file=file,
    width=width,
    height=height,
    force_terminal=terminal,
    color_system=None,
    _environ={"TERM": "xterm"},
  )


def written(console):
  console.file.flush()
  return console.file.buffer.getvalue().decode(console.file.encoding)


def drawn(status, **kwargs):
  console = console_of(**kwargs)
  console.print(panel.render(status, console))
  return written(console).rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("height", [24, 40])
def test_everything_is_readable(width, height):
  lines = drawn(STATUS, width=width, height=height)
  text = " ".join(" ".join(lines).split())
  for shown in SHOWN:
    assert shown in text
  assert "…" not in text
  assert {len(line) for line in lines} == {min(width, 80)}


def test_a_terminal_without_unicode():
  assert "* running" in drawn(STATUS, encoding="ascii")[0]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("value", ["missing", None, math.nan, math.inf])
def test_no_value_is_needed(terminal, value):
  for key in STATUS:
    # A clock without a value has no time to print the next line at.
    status = {**STATUS, "evaluations": 1, key: value}
    if value == "missing":
      del status[key]
    elif key in ("limits", "nodes", "proxy", "metrics", "mode"):
      status[key] = None
    console = console_of(terminal=terminal)
    with panel.Panel(console) as shown:
      shown.update(status)
      shown.update(status)
    assert status.get("name", "run") is None or written(console)
  console = console_of(terminal=terminal)
  with panel.Panel(console) as shown:
    shown.update({})
  assert "run" in written(console)


@pytest.mark.parametrize("height", [24, 27, 40])
def test_the_panel_keeps_its_height_while_running(height):
  empty = {
    **dict.fromkeys(STATUS),
    **{key: STATUS[key] for key in ("limits", "nodes", "proxy")},
  }
  nothing = {**STATUS, "environment_steps_per_s_asked": 0.0, "resumes": 0}
  lines = [drawn(s, height=height) for s in (empty, nothing, STATUS)]
  assert len({len(each) for each in lines}) == 1
  # Each label is where it was.
  labels = [[line[3:14].strip() for line in each[1:-1]] for each in lines]
  assert labels[0] == labels[1] == labels[2]


# Rows of the terminal, and of its panel those that are empty.
ROWS = [(40, 5), (28, 5), (27, 3), (26, 3), (25, 0), (24, 0)]


@pytest.mark.parametrize(("height", "empty"), ROWS)
def test_there_is_air_where_there_is_room(height, empty):
  limits = {**STATUS["limits"], "trainer_steps": 100_000}
  waiting = (
    "2 of 2 workers wait for the replay server at localhost:7000, which does "
    "not answer, since 12:03:11 (14 s)"
  )
  lines = drawn({**STATUS, "limits": limits, "waiting": waiting}, height=height)
  assert "(14 s)" in "\n".join(lines)
  assert len(lines) <= height
  assert sum(not line.strip("│ ") for line in lines) == empty


def test_a_stall_stands_out():
  waiting = (
    "nothing moves since 12:03:11 (31 s): workers wait to insert into table "
    "'transitions': the trainer must sample 8 more items first; 1,500 inserted "
    "x 8 - 0 sampled = 12,000 in 4,000 to 12,000; 1,500 items of at least 1,000"
  )
  limits = {**STATUS["limits"], "trainer_steps": 100_000}
  stalled = {**STATUS, "limits": limits, "waiting": waiting, "stalled_s": 31.0}
  for height in (24, 40):
    lines = drawn(stalled, height=height)
    text = " ".join(" ".join(lines).replace("│", " ").split())
    assert text.count(waiting) == 1
    assert len(lines) <= height
    assert ("time left" in text) == (height == 40)
  console = console_of()
  console._color_system = rich.console.ColorSystem.STANDARD
  for stalled_s, yellow in ((31.0, True), (None, False)):
    status = {**STATUS, "nodes": {}, "items_lost": 0, "stalled_s": stalled_s}
    with console.capture() as captured:
      console.print(panel.render(status, console))
    assert ("\x1b[33mworkers wait" in captured.get()) == yellow


# The key of a rate that is asked for, the label of its row, how 2.0 of it is
# written, and what a plain line says of it.
ASKED = [
  ("environment_steps_per_s_asked", "speed", "2", "(3,220/s, {})"),
  (
    "samples_per_insert_asked",
    "sampling",
    "2.00",
    "8.02 samples per insert ({})",
  ),
  (
    "variable_loads_per_trainer_step_asked",
    "loading",
    "2",
    "0.0493 loads per trainer step ({})",
  ),
]


@pytest.mark.parametrize(("key", "label", "two", "said"), ASKED)
def test_each_rate_is_shown_as_asked_and_as_measured(key, label, two, said):
  missing = {name: value for name, value in STATUS.items() if name != key}
  for status, text in (
    ({**STATUS, key: 2.0}, f"{two} asked"),
    ({**STATUS, key: 0.0}, "no limit"),
    ({**STATUS, key: None}, "- asked"),
    (missing, "- asked"),
  ):
    (line,) = (line for line in drawn(status) if label in line)
    assert line.rstrip("│ ").endswith(f" {text}")
    assert said.format(text) in status_text.progress_line(status)


LOSSES = ("env_steps_lost", "trainer_steps_lost", "items_lost")


@pytest.mark.parametrize("key", LOSSES)
def test_a_loss_stands_out(key):
  status = {**STATUS, "nodes": {}, **dict.fromkeys(LOSSES, 0)}
  console = console_of()
  console._color_system = rich.console.ColorSystem.STANDARD
  for lost in (0, 7):
    with console.capture() as captured:
      console.print(panel.render({**status, key: lost}, console))
    text = captured.get()
    assert text.count("33m") == (lost > 0)
    assert len(re.findall("33m *7\x1b", text)) == (lost > 0)


def test_snapshots_that_were_not_uploaded_stand_out():
  console = console_of(width=100, height=40)
  for failures in (0, 4):
    status = {**STATUS, "snapshot_upload_failures": failures}
    with console.capture() as captured:
      console.print(panel.render(status, console))
    assert ("not uploaded" in captured.get()) == (failures > 0)
    line = status_text.progress_line(status)
    assert ("4 snapshots not uploaded" in line) == (failures > 0)


@pytest.mark.parametrize("mode", ["async", "sync", "single", None])
def test_an_unusual_mode_stands_in_the_title(mode):
  status = {**STATUS, "mode": mode}
  shown = f"{mode}  " if mode in ("sync", "single") else ""
  assert f"● running  {shown}0:01:23" in drawn(status)[0]
  said = f"running, mode {mode}" if shown else "running"
  assert status_text.phase_line(status) == f"0:01:23 apex-cartpole-3: {said}"


def test_a_run_that_was_never_resumed_says_nothing_of_it():
  text = "\n".join(drawn({**STATUS, "resumes": 0}))
  assert "2 of nodes" in text
  assert "of the run" not in text


def test_no_proxy():
  text = "\n".join(drawn({**STATUS, "proxy": {}}))
  assert "proxy" not in text
  assert "MB/s" not in text


MACHINES = {
  "home": {"host": "10.0.0.1", "up": True, "strangers": 2},
  "workers/1": {"host": "10.0.0.2", "up": True, "strangers": 0},
}


def test_machines_are_counted_and_strangers():
  text = " ".join(drawn({**STATUS, "machines": MACHINES}))
  assert "2/2 up" in text
  assert "2 strangers refused" in text
  assert "lost" not in text.split("machines")[1].split("restarts")[0]
  assert "machines" not in " ".join(drawn(STATUS))


def test_a_lost_machine_is_named():
  lost = {**MACHINES["workers/1"], "up": False}
  machines = {**MACHINES, "workers/1": lost}
  text = " ".join(drawn({**STATUS, "machines": machines}))
  assert "1/2 up" in text
  assert "workers/1 on 10.0.0.2 is lost" in text


@pytest.mark.parametrize("height", [24, 40])
def test_machines_keep_their_row(height):
  heights = {
    len(drawn({**STATUS, "machines": MACHINES, "waiting": w}, height=height))
    for w in (None, "workers wait for the trainer")
  }
  assert len(heights) == 1
  assert heights.pop() <= height


def test_a_paused_run_says_so():
  status = {**STATUS, "phase": "paused", "waiting": "paused", "mode": "async"}
  lines = drawn(status)
  assert "● paused" in lines[0]
  assert re.search(r"waiting +paused ", "\n".join(lines))
  assert status_text.phase_line(status) == "0:01:23 apex-cartpole-3: paused"


def test_a_stopped_run_says_why_and_has_no_time_left():
  status = {**STATUS, "phase": "stopped", "stopped_because": "target_return"}
  text = "\n".join(drawn(status))
  assert "the target return was reached" in text
  assert "time left" not in text
  assert "waiting" not in text


def test_a_terminal_is_drawn_in_place():
  console = console_of()
  with panel.Panel(console) as shown:
    shown.update(STATUS)
    once = written(console).count("\n")
    shown.update({**STATUS, "env_steps": 200_000})
  text = written(console)
  assert "\x1b[1A" in text  # The cursor went back up.
  assert "200,000 steps" in text
  assert once == len(drawn(STATUS)) - 1


# Changes to the status, and which lines each prints: (p)hase, (e)valuation,
# pro(g)ress.
LINES = [
  [({"wall_s": 0.0, "evaluations": 0}, "pg")],
  [  # resumed
    ({"wall_s": 0.0, "evaluations": 4, "eval_episodes": 0}, "pg"),
    ({"wall_s": 1.0, "evaluations": 5, "eval_episodes": 20}, "e"),
  ],
  [
    ({"wall_s": 0.0, "evaluations": 0, "phase": "starting"}, "pg"),
    ({"wall_s": 4.9}, ""),
    ({"wall_s": 5.0}, "g"),
    ({"wall_s": 9.9}, ""),
    ({"wall_s": 10.1}, "g"),
    ({"wall_s": 15.0}, ""),
    ({"wall_s": 15.1}, "g"),
  ],
  [
    ({"wall_s": 1.0, "evaluations": 0, "phase": "starting"}, "pg"),
    ({"wall_s": 2.0, "phase": "running"}, "p"),
    ({"wall_s": 3.0, "evaluations": 1}, "e"),
    ({"wall_s": 4.0}, ""),
    ({"wall_s": 6.0, "evaluations": 2}, "eg"),
    ({"wall_s": 7.0, "phase": "stopping"}, "p"),
    ({"wall_s": 8.0, "phase": "stopped"}, "pg"),
  ],
]


@pytest.mark.parametrize("steps", LINES)
def test_plain_lines(steps):
  console = console_of(width=40, terminal=False)
  status = dict(STATUS)
  expected = []
  makers = {
    "p": status_text.phase_line,
    "e": status_text.evaluation_line,
    "g": status_text.progress_line,
  }
  with panel.Panel(console) as shown:
    for change, kinds in steps:
      status.update(change)
      shown.update(status)
      expected += [makers[kind](status) for kind in kinds]
  assert written(console).splitlines() == expected


def test_a_plain_line_says_all_of_it():
  assert status_text.progress_line(STATUS) == (
    "0:01:23 apex-cartpole-3: 123,456 environment steps (3,220/s, "
    "4,000 asked); "
    "15,432 trainer steps (401/s); replay 42,310 of 50,000 items, 8.02 samples "
    "per insert (8.00 asked); variables 0.21 s old, 0.0493 loads per trainer "
    "step (0.05 asked); mean return 312.35 "
    "(best 340.05, target 475.00); snapshot 12 s old, 3 written; "
    "5 min to 1,000,000 environment steps; "
    "29 min to 0:30:00 of wall-clock time; worker 3 of 4 up; "
    "17 items lost; 128 environment steps lost; 40 trainer steps lost; "
    "5 reconnects; 2 restarts; 1 resumes; "
    "waiting: workers wait for the trainer"
  )
  assert status_text.evaluation_line(STATUS) == (
    "0:01:23 apex-cartpole-3: evaluation 17: mean return 312.35 over 20 "
    "episodes (best 340.05, target 475.00) after 123,456 environment steps"
  )


@pytest.mark.parametrize("value", [0, None])
def test_a_plain_line_leaves_out_what_did_not_happen(value):
  keys = (*LOSSES, "reconnects", "restarts", "resumes", "snapshots")
  line = status_text.progress_line({**STATUS, **dict.fromkeys(keys, value)})
  for word in ("lost", "reconnects", "restarts", "resumes", "snapshot"):
    assert word not in line
