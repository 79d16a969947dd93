"""Tests of a training in a notebook, with IPython's shell but no kernel."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.runs

# Prints what the cell shows: its text, and per display its last content.
_NOTEBOOK = """
import io, json, sys
from IPython.core import displaypub, interactiveshell

class Publisher(displaypub.CapturingDisplayPublisher):
  def publish(self, data, metadata=None, *, transient=None, update=False, **_):
    shown[transient["display_id"]] = sorted(data), data.get("text/plain")
    if update:
      updates[0] += 1

shown, updates, stdout = {}, [0], sys.stdout
shell = interactiveshell.InteractiveShell.instance(
  display_pub_class=Publisher, history_load_length=0
)
sys.stdout = io.StringIO()
import slipway
config = slipway.load_config("apex_dqn:cartpole")
config.replay.min_size = 100
config.network.hidden_sizes = (16,)
config.evaluation.episodes = 2
config.limits.trainer_steps = 300
slipway.train(config, name="first", run_dir=sys.argv[1], mode="single")
text = sys.stdout.getvalue()
print(json.dumps([text, [*shown.values()], updates[0]]), file=stdout)
"""


def test_a_line_and_a_curve_are_updated_in_place(tmp_path):
  done = subprocess.run(
    [sys.executable, "-c", _NOTEBOOK, tmp_path],
    capture_output=True,
    text=True,
  )
  text, shown, updates = json.loads(done.stdout)
  (line, progress), (curve, _) = shown
  assert line == ["text/plain"]
  assert " first: environment " in progress
  assert "image/png" in curve
  assert updates > 3
  first, *rest = text.splitlines()
  assert first == f"run folder: {tmp_path}/first"
  assert not any("environment 0 steps" in x or "starting" in x for x in rest)
  assert any(" first: stopped: " in x for x in rest)
  assert any(x.startswith("results: ") for x in rest)
