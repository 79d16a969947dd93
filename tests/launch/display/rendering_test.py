"""Tests of the rendering of a status: its content at each size."""

import msgspec
import pytest

from slipway.launch.display import lines
from slipway.launch.runs import machine_usage, run_status
from tests.launch.display import given

# texts that the panel of given.STATUS must show
SHOWN = (
  "apex-cartpole-3",
  "running",
  "sync",
  "0:01:23",
  "123,456 steps",
  "15,432 steps",
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
  "worker 3/4",
  "2 of nodes 5 of streams 1 of the run",
  "workers wait for the trainer",
)


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("height", [24, 40])
def test_everything_is_readable(width, height):
  lines = given.render_lines(given.STATUS, width=width, height=height)
  text = " ".join(" ".join(lines).split())
  for shown in SHOWN:
    assert shown in text
  assert "…" not in text
  assert {len(line) for line in lines} == {min(width, 80)}


def test_a_terminal_without_unicode():
  assert "* running" in given.render_lines(given.STATUS, encoding="ascii")[0]


@pytest.mark.parametrize("height", [24, 28, 40])
def test_the_panel_keeps_its_height_while_running(height):
  empty = run_status.RunStatus(
    limits=given.STATUS.limits,
    nodes=given.STATUS.nodes,
    proxy=run_status.ProxyStatus(),
    replay=run_status.ReplayStatus(),
  )
  nothing = given.changed(rates={"env_steps_per_s_target": 0.0}, resumes=0)
  lines = [
    given.render_lines(s, height=height) for s in (empty, nothing, given.STATUS)
  ]
  assert len({len(each) for each in lines}) == 1
  # Each label keeps its position.
  labels = [[line[3:14].strip() for line in each[1:-1]] for each in lines]
  assert labels[0] == labels[1] == labels[2]


# rows of the terminal, empty rows in the panel
ROWS = [(40, 3), (27, 3), (26, 0), (24, 0)]


@pytest.mark.parametrize(("height", "empty"), ROWS)
def test_empty_rows_are_shown_if_there_is_room(height, empty):
  waiting = (
    "2 of 2 workers wait for the replay server at localhost:7000, which does "
    "not answer, since 12:03:11 (14 s)"
  )
  lines = given.render_lines(
    given.changed(limits={"trainer_steps": 100_000}, waiting=waiting),
    height=height,
  )
  assert "(14 s)" in "\n".join(lines)
  assert len(lines) <= height
  assert sum(not line.strip("│ ") for line in lines) == empty


STALL = (
  "nothing moves since 12:03:11 (31 s): workers wait to insert into table "
  "'transitions': the trainer must sample 8 more items first; 1,500 inserted x "
  "8 - 0 sampled = 12,000 in 4,000 to 12,000; 1,500 items of at least 1,000"
)


def test_a_stall_stands_out():
  stalled = given.changed(
    limits={"trainer_steps": 100_000}, waiting=STALL, stalled_s=31.0
  )
  for height in (24, 40):
    text = given.render_text(stalled, height=height)
    assert text.count(STALL) == 1
    assert len(given.render_lines(stalled, height=height)) <= height
  for stalled_s, yellow in ((31.0, True), (None, False)):
    status = given.changed(
      nodes=given.ALL_UP, items_lost=0, stalled_s=stalled_s
    )
    text = given.render_colored(status)
    assert ("\x1b[33mworkers wait" in text) == yellow


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
  status = given.changed(**fields)
  lines = given.render_lines(status, width=width, height=height)
  assert len(lines) <= height
  assert lines[-1].startswith("╰")  # nothing is cut off
  text = given.render_text(status, width=width, height=height)
  shown = status.waiting or "the limit of environment"
  assert shown in text
  assert "123,456 steps" in text and "312.35 mean return" in text


def test_limits_that_end_the_run_together():
  limits = {"combine": "all", "evaluations_without_improvement": 10}
  status = given.changed(limits=limits, evaluation={"without_improvement": 3})
  text = given.render_text(status)
  assert "all of 5 min to 1,000,000 environment steps" in text
  assert "3 of 10 evaluations without improvement nodes up" in text
  line = lines.progress_line(status)
  assert "wall-clock time and 3 of 10 evaluations without" in line


def test_a_failed_hook_is_shown_in_its_row():
  status = given.changed(failed_hooks={"mine:notify": "ValueError: boom"})
  shown = "mine:notify failed: ValueError: boom"
  (line,) = (line for line in given.render_lines(status) if "hook" in line)
  assert line.strip("│ ").split("  ")[0] == "hooks" and shown in line
  assert f"; hooks: {shown}; waiting" in lines.progress_line(status)


def test_the_first_failure_is_shown_in_its_row():
  failure = "node worker/0 failed: MyRobot.step: ValueError: boom"
  status = given.changed(first_failures={"worker": failure})
  (line,) = (line for line in given.render_lines(status) if "boom" in line)
  assert line.strip("│ ") == f"failure     {failure}"
  assert lines.failure_line(status, "worker").endswith(failure)
  assert "boom" not in lines.progress_line(status)
  ended = given.changed(first_failures={"worker": failure}, phase="stopped")
  assert f"failure: {failure}" in lines.progress_line(ended)


@pytest.mark.parametrize("mode", ["async", "sync", "single"])
def test_an_unusual_mode_is_shown_in_the_title(mode):
  status = given.changed(mode=mode)
  shown = f"{mode}  " if mode in ("sync", "single") else ""
  assert f"● running  {shown}0:01:23" in given.render_lines(status)[0]
  phase = f"running, mode {mode}" if shown else "running"
  assert lines.phase_line(status) == f"0:01:23 apex-cartpole-3: {phase}"


def test_a_run_that_was_never_resumed_shows_no_resumes():
  text = given.render_text(given.changed(resumes=0))
  assert "2 of nodes" in text
  assert "of the run" not in text


MACHINES = {
  "home": run_status.MachineStatus("10.0.0.1", True, 2),
  "workers/1": run_status.MachineStatus("10.0.0.2", True),
}


def test_machines_and_rejected_peers_are_counted():
  text = given.render_text(given.changed(machines=MACHINES))
  assert "2/2 up" in text
  assert "2 unauthenticated peers rejected" in text
  assert "down" not in text.split("machines")[1].split("restarts")[0]
  assert "machines" not in given.render_text(given.STATUS)


def test_a_lost_machine_is_named():
  lost = run_status.MachineStatus("10.0.0.2", False)
  machines = {**MACHINES, "workers/1": lost}
  text = given.render_text(given.changed(machines=machines))
  assert "1/2 up" in text
  assert "workers/1 on 10.0.0.2 is down" in text


def test_the_load_of_all_machines_is_shown():
  usage = machine_usage.MachineUsage(
    *(4, 1.5, 100, 10, 100, 96),
    gpus={0: machine_usage.GpuUsage(0.4), 1: machine_usage.GpuUsage(0.6)},
  )
  other = machine_usage.MachineUsage(8, 3.0, 100, 20, 100, 1)
  text = given.render_text(
    given.changed(monitors={"home": usage, "workers/1": other})
  )
  assert "CPU 4.5 of 12 cores memory 20 % disk 96 % GPU 50 %" in text


@pytest.mark.parametrize("height", [24, 40])
def test_machines_keep_their_row(height):
  heights = {
    len(
      given.render_lines(
        given.changed(machines=MACHINES, waiting=w), height=height
      )
    )
    for w in (None, "workers wait for the trainer")
  }
  assert len(heights) == 1
  assert heights.pop() <= height


def test_a_paused_run_is_shown_as_paused():
  status = given.changed(phase="paused", waiting="paused", mode="async")
  assert "● paused" in given.render_lines(status)[0]
  assert "waiting paused " in given.render_text(status)
  assert lines.phase_line(status) == "0:01:23 apex-cartpole-3: paused"


def test_a_stopped_run_shows_the_reason_and_no_time_left():
  status = given.changed(phase="stopped", stopped_because="target_return")
  text = given.render_text(status)
  assert "the target return was reached" in text
  assert "time left" not in text
  assert "waiting" not in text


@pytest.mark.parametrize(
  ("metrics", "shown"),
  [
    ({}, "update -"),
    (
      {"value_loss": 3.2, "explained_variance": 0.914, "kl": 0.00421,
       "entropy": 0.6139, "policy_age_versions_mean": 1.0},
      "update entropy 0.61 KL 0.0042 age 1 explained 0.91 "
      "losses value loss 3.2",
    ),
    (
      {"q_mean": 1234.5, "td_error_abs_mean": None, "loss": 1.0},
      "update Q 1,234.50 TD error - losses loss 1",
    ),
    # The user's own algorithm may have other metrics.
    (
      {"surprise": 2e-7, "policy_age_versions_mean": 2.0},
      "update surprise 2e-07 policy_age_versions_mean 2",
    ),
  ],
)  # fmt: skip
def test_metrics_of_the_last_update_are_shown(metrics, shown):
  status = msgspec.structs.replace(given.STATUS, learner=metrics)
  text = given.render_text(status)
  assert f"{shown} time left" in text
  # A small panel omits the metrics first.
  assert "│  update" not in " ".join(given.render_lines(status, height=20))


def test_losses_have_a_row():
  metrics = {"policy_loss": -0.0123, "kl": 0.1, "critic_loss": 2.5}
  status = msgspec.structs.replace(given.STATUS, learner=metrics)
  text = given.render_text(status)
  assert "losses policy loss -0.012 critic loss 2.5 time left" in text


@pytest.mark.parametrize(
  ("encoding", "curve"), [("utf-8", "▁▁▅█"), ("ascii", "__+@")]
)
def test_the_last_returns_are_drawn(encoding, curve):
  returns = [-10.0, -9.0, 0.0, 10.0]
  status = given.changed(evaluation={"last_returns": returns})
  assert f"curve {curve} " in given.render_text(status, encoding=encoding)
  assert "curve - " in given.render_text(given.STATUS)


def test_the_limit_that_ends_the_run_first_has_a_row():
  limits = {"environment_steps": 0, "trainer_steps": 100_000}
  status = given.changed(limits=limits)
  assert "time left 4 min to 100,000 trainer steps" in given.render_text(status)
  slow = given.changed(status, rates={"trainer_steps_per_s": 0.0})
  assert "time left 29 min to 0:30:00 of wall" in given.render_text(slow)
  stuck = given.changed(slow, limits={"wall_clock_s": 0.0})
  assert "time left - to 100,000 trainer" in given.render_text(stuck)


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (40, 16)])
def test_a_run_with_every_row_fits(width, height):
  status = msgspec.structs.replace(
    given.changed(
      machines={
        str(i): run_status.MachineStatus("10.0.0.1", i > 3) for i in range(9)
      },
      first_failures=dict.fromkeys("abc", "it failed: " + 90 * "x"),
      failed_hooks=dict.fromkeys("abc", "it failed"),
      waiting="workers wait for the trainer",
      limits={"evaluations_without_improvement": 3, "combine": "all"},
    ),
    learner={"loss": 1.0, "q_mean": 3.0},
    unwritten=["curves.csv"],
  )
  lines = given.render_lines(status, width=width, height=height)
  assert len(lines) <= height
  assert "workers wait for" in lines[-2] or "trainer" in lines[-2]


def test_advice_is_shown_while_no_node_waits():
  sentence = "TD errors are clipped"
  status = given.changed(waiting=None, advice=["an older one", sentence])
  text = given.render_text(status)
  assert f"advice {sentence}" in text
  assert "waiting" not in text
  assert sentence not in given.render_text(given.changed(advice=[sentence]))
  line = lines.advice_line(status, sentence)
  assert line == f"0:01:23 apex-cartpole-3: advice: {sentence}"
