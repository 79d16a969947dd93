"""Tests of the panel: on terminals, in plain lines, and on closed outputs."""

import os
import pty
import signal
import sys

import pytest
import rich.console

from slipway.launch.display import lines, panel
from slipway.launch.runs import run_status
from tests.launch.display import given


@pytest.mark.parametrize("terminal", [True, False])
def test_no_value_is_needed(terminal):
  console = given.make_console(terminal=terminal)
  with panel.Panel(console) as shown:
    shown.update(run_status.RunStatus())
    shown.update(run_status.RunStatus(mode="sync", env_steps=7))
  assert "run" in given.read_output(console)


def test_a_terminal_that_changes_its_size_is_cleared():
  console = given.make_console()
  seen = ""
  with panel.Panel(console) as shown:
    for width, clears in ((80, False), (80, False), (60, True), (60, False)):
      console.size = rich.console.ConsoleDimensions(width, 24)
      shown.update(given.STATUS)
      new, seen = (
        given.read_output(console).removeprefix(seen),
        given.read_output(console),
      )
      assert ("\x1b[2J" in new) == clears
    lines = new.split("\n")
    assert {len(line) for line in lines if line.startswith("│")} == {60}


def test_a_terminal_is_drawn_in_place():
  console = given.make_console()
  with panel.Panel(console) as shown:
    shown.update(given.STATUS)
    once = given.read_output(console).count("\n")
    shown.update(given.changed(env_steps=200_000))
  text = given.read_output(console)
  assert "\x1b[1A" in text  # the cursor moves up
  assert "200,000 steps" in text
  assert once == len(given.render_lines(given.STATUS)) - 1


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
  console = given.make_console(width=40, terminal=False)
  status = given.STATUS
  expected = []
  makers = {
    "p": lines.phase_line,
    "e": lines.evaluation_line,
    "g": lines.progress_line,
  }
  with panel.Panel(console) as shown:
    for change, kinds in steps:
      evaluation = {
        name: change[name] for name in ("count", "episodes") if name in change
      }
      fields = {k: v for k, v in change.items() if k not in evaluation}
      status = given.changed(status, evaluation=evaluation, **fields)
      shown.update(status)
      expected += [makers[kind](status) for kind in kinds]
  assert given.read_output(console).splitlines() == expected


def test_a_notebook_gets_no_terminal_codes(monkeypatch, capsys):
  monkeypatch.setenv("FORCE_COLOR", "1")  # as ipykernel does
  with panel.Panel() as shown:
    shown.update(given.STATUS)
  assert "\x1b" not in capsys.readouterr().out


def test_a_pipe_without_a_reader_ends_the_output_only(monkeypatch):
  reader, writer = os.pipe()
  os.close(reader)
  with open(writer, "w") as output:  # closes it, as Python's exit does
    monkeypatch.setattr(sys, "stdout", output)
    with panel.Panel() as shown:
      shown.update(given.STATUS)
      shown.update(given.changed(phase="stopped"))


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
        shown.update(given.STATUS)
      os.close(ours)
      shown.update(given.changed(phase="stopped"))


_DEBUGGED = """
import sys, threading
from slipway.launch.display import panel
from tests.launch.display import given

def show():
  while not ended.wait(0.01):
    shown.update(given.STATUS)

ended = threading.Event()
with panel.Panel() as shown:
  shown.update(given.STATUS)
  threading.Thread(target=show, daemon=True).start()
  exec(sys.argv[1])
  value = 6 * 7
  ended.wait(60)
"""


@pytest.mark.parametrize(
  "stop", ["breakpoint()", "import pdb; pdb.set_trace()"]
)
def test_the_panel_pauses_while_a_debugger_prompts(stop):
  pid, terminal = pty.fork()
  if not pid:
    os.environ["TERM"] = "xterm"
    os.execv(sys.executable, [sys.executable, "-c", _DEBUGGED, stop])

  def read(until):
    text = b""
    while not text.endswith(until):
      text += os.read(terminal, 1)
    return text

  try:
    read(b"(Pdb) ")
    for line in (b"n\n", b"n\n", b"p value\n", b"p 7\n"):
      os.write(terminal, line)
      text = read(b"(Pdb) ")
      assert b"\x1b" not in text
    assert text == b"p 7\r\n7\r\n(Pdb) "
    os.write(terminal, b"c\n")
    read("╭".encode())
  finally:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
