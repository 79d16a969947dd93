"""Panel: what is shown, at which width, and when a plain line is printed."""

import io
import math
import re

import pytest
import rich.console

from launch import panel, status_text

STATUS = {
  "name": "apex-cartpole-3",
  "phase": "running",
  "stopped_because": None,
  "wall_s": 83.4,
  "start_up_s": 9.1,
  "env_steps": 123_456,
  "env_steps_per_s": 3217.7,
  "environment_steps_per_s_asked": 4000.0,
  "trainer_steps": 15_432,
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
}

# What a reader looks for, as it is written.
SHOWN = (
  "apex-cartpole-3",
  "running",
  "0:01:23",
  "123,456 steps",
  "3,220 steps/s",
  "15,432 steps",
  "401 steps/s",
  "42,310 of 50,000 items",
  "85 % full",
  "8.02 samples/insert",
  "8.00 asked",
  "0.21 s old",
  "4,000 steps/s asked",
  "80 % of it",
  "1.83 MB/s",
  "4 streams",
  "3,190 items/s confirmed",
  "17 lost",
  "5 reconnects",
  "2 restarts",
  "312.35 mean return",
  "340.05 of 17",
  "475.00 target",
  "5 min to 1,000,000 environment steps",
  "29 min to 0:30:00 of wall-clock time",
  "worker 3/4",
  "workers wait for the trainer",
)


def console_of(width=80, terminal=True, encoding="utf-8"):
  file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
  return rich.console.Console(
    file=file,
    width=width,
    height=40,
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
def test_everything_is_readable(width):
  lines = drawn(STATUS, width=width)
  text = "\n".join(lines)
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
    elif key in ("limits", "nodes", "proxy", "metrics"):
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


def test_the_panel_keeps_its_height_while_running():
  empty = {
    **dict.fromkeys(STATUS),
    **{
      key: STATUS[key]
      for key in ("limits", "nodes", "proxy", "environment_steps_per_s_asked")
    },
  }
  assert len(drawn(empty)) == len(drawn(STATUS))


def test_all_of_it_fits_24_rows():
  limits = {**STATUS["limits"], "trainer_steps": 100_000}
  waiting = (
    "2 of 2 workers wait for the replay server at localhost:7000, which does "
    "not answer, since 12:03:11 (14 s)"
  )
  lines = drawn({**STATUS, "limits": limits, "waiting": waiting})
  assert "(14 s)" in "\n".join(lines)
  assert len(lines) <= 24


def test_a_stall_stands_out():
  waiting = (
    "nothing moves since 12:03:11 (31 s): workers wait to insert into table "
    "'transitions': the trainer must sample 8 more items first; 1,500 inserted "
    "x 8 - 0 sampled = 12,000 in 4,000 to 12,000; 1,500 items of at least 1,000"
  )
  limits = {**STATUS["limits"], "trainer_steps": 100_000}
  stalled = {**STATUS, "limits": limits, "waiting": waiting, "stalled_s": 31.0}
  lines = drawn(stalled)
  assert " ".join(" ".join(lines).replace("│", " ").split()).count(waiting) == 1
  assert len(lines) <= 24
  console = console_of()
  console._color_system = rich.console.ColorSystem.STANDARD
  for stalled_s, yellow in ((31.0, True), (None, False)):
    status = {**STATUS, "nodes": {}, "items_lost": 0, "stalled_s": stalled_s}
    with console.capture() as captured:
      console.print(panel.render(status, console))
    assert ("\x1b[33mworkers wait" in captured.get()) == yellow


@pytest.mark.parametrize("asked", ["missing", None, 0.0])
def test_no_speed_is_shown_where_none_is_asked(asked):
  status = {**STATUS, "environment_steps_per_s_asked": asked}
  if asked == "missing":
    del status["environment_steps_per_s_asked"]
  text = "\n".join(drawn(status))
  assert "speed" not in text
  assert "3,220 steps/s" in text
  assert "/s asked" not in text
  assert "(3,220/s);" in status_text.progress_line(status)


def test_no_proxy():
  text = "\n".join(drawn({**STATUS, "proxy": {}}))
  for word in ("proxy", "reconnects", "confirmed"):
    assert word not in text


def test_a_paused_run_says_so():
  status = {**STATUS, "phase": "paused", "waiting": "paused"}
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
    "0:01:23 apex-cartpole-3: 123,456 environment steps (3,220/s "
    "of 4,000 asked); "
    "15,432 trainer steps (401/s); replay 42,310 of 50,000 items, 8.02 samples "
    "per insert (8.00 asked); variables 0.21 s old; mean return 312.35 "
    "(best 340.05, target 475.00); 5 min to 1,000,000 environment steps; "
    "29 min to 0:30:00 of wall-clock time; worker 3 of 4 up; "
    "17 items lost; 5 reconnects; 2 restarts; "
    "waiting: workers wait for the trainer"
  )
  assert status_text.evaluation_line(STATUS) == (
    "0:01:23 apex-cartpole-3: evaluation 17: mean return 312.35 over 20 "
    "episodes (best 340.05, target 475.00) after 123,456 environment steps"
  )


@pytest.mark.parametrize("value", [0, None])
def test_a_plain_line_leaves_out_what_did_not_happen(value):
  status = {**STATUS, "items_lost": value, "reconnects": value}
  line = status_text.progress_line(status)
  assert "lost" not in line
  assert "reconnects" not in line
