"""The dashboard's page in a browser: `pytest -m browser`, with Chromium."""

import shutil
import subprocess

import pytest

from slipway.launch.runs import events
from tests.launch.dashboard import given

_CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = [
  pytest.mark.browser,
  pytest.mark.skipif(
    _CHROMIUM is None, reason="neither chromium nor google-chrome is on PATH"
  ),
]


def show(port, fragment=f"token={given.TOKEN}"):
  """Returns the document after the page has loaded its data."""
  shown = subprocess.run(
    [
      *(_CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu"),
      *("--window-size=1280,900", "--virtual-time-budget=4000"),
      *("--dump-dom", f"http://127.0.0.1:{port}/#{fragment}"),
    ],
    capture_output=True,
    text=True,
    timeout=60,
    check=True,
  )
  return shown.stdout


def test_a_run_has_curves(tmp_path):
  folder = given.make_run(tmp_path / "first")
  given.add_evaluations(folder, [10.0, 20.0, 30.0])
  given.end(folder, env_steps=300, advice=["do <b>this</b>"])
  with given.served(folder.path) as port:
    page = show(port)
    assert "first · Slipway" in page
    assert page.count('class="line"') >= 2  # of evaluations and of metrics
    assert "the limit of trainer steps was reached" in page
    (row,) = given.load_runs(port).values()
    for tab, part in (
      ("nodes", "waits: "),
      ("advice", "do &lt;b&gt;this&lt;/b&gt;"),
      ("config", "dqn:cartpole"),
      ("logs", "no log yet"),
      ("videos", "no video yet"),
      ("replay", "has no table"),
    ):
      where = f"token={given.TOKEN}&run={row['key']}&tab={tab}"
      assert part in show(port, where)


def test_runs_are_compared_with_intervals(tmp_path):
  for seed in (1, 2):
    folder = given.make_run(tmp_path / f"a-{seed}", seed=seed)
    given.add_evaluations(folder, [1.0 * seed, 10.0 * seed])
  with given.served(tmp_path) as port:
    page = show(port)
  assert page.count('class="band"') == 1
  assert "10 to 20" in page
  assert page.count("#run=") >= 3


def test_metrics_may_have_names_of_properties_of_javascript(tmp_path):
  folder = given.make_run(tmp_path / "first")
  names = ("constructor", "__proto__", "toString", "learner/__proto__")
  events.Events(folder.events).add(
    {"run/wall_s": 1.0, "run/env_steps": 1, **dict.fromkeys(names, 1.0)}, 1
  )
  with given.served(folder.path) as port:
    page = show(port)
  assert page.count("<b>__proto__</b>") == 2
  assert "<b>constructor</b>" in page and "<b>toString</b>" in page


def test_a_run_without_an_evaluation_and_a_wrong_token(tmp_path):
  folder = given.make_run(tmp_path / "first")
  with given.served(folder.path) as port:
    assert "not started" in show(port)
    assert "The token is missing or wrong" in show(port, "token=other")
