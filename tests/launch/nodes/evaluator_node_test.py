"""Tests of the evaluator node, with in-process variables and control."""

import threading

import launchpad as lp
import pytest

from slipway.launch.nodes import evaluator_node
from slipway.launch.orchestration import messages
from slipway.launch.runs import run_folder
from tests.launch.nodes import local_run


class Control:
  """A control that stops the node after its first evaluation."""

  def __init__(self, restarts):
    self._restarts = restarts
    self.evaluations = []

  def register(self, role, index):
    assert (role, index) == ("evaluator", 0)
    return messages.Registration(self._restarts)

  def report(self, role, index, report):
    return messages.Command(stop=bool(self.evaluations))

  def finished(self, role, index, report):
    pass

  def evaluated(self, evaluation):
    self.evaluations.append(evaluation)
    return messages.EvaluationReply()


class Data:
  """Addresses of the variables of a run in this process."""

  def __init__(self, run):
    self.make_variables_source = run.variables.make_source


@pytest.fixture
def evaluate(monkeypatch, tmp_path):
  """Returns a function that returns the returns of a node's evaluation."""
  monkeypatch.setattr(lp, "stop_event", threading.Event)
  run = local_run.LocalRun(local_run.make_config())
  run.publish()

  def evaluate(restarts):
    control, folder = Control(restarts), run_folder.RunFolder(tmp_path)
    evaluator_node.EvaluatorNode(
      run.config, run.spec, folder, Data(run), control
    ).run()
    (evaluation,) = control.evaluations
    return evaluation.returns, evaluation.repeated

  return evaluate


def test_a_restarted_evaluator_plays_other_episodes(evaluate):
  first = evaluate(restarts=0)
  assert evaluate(restarts=0) == first
  assert evaluate(restarts=1) != first
