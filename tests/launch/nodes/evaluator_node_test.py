"""Tests of the evaluator node, with in-process variables and control."""

import threading

import pytest

from slipway.launch.control import messages
from slipway.launch.nodes import evaluator_node, link
from slipway.launch.runs import outbox, run_folder
from tests.launch import small_disk
from tests.launch.nodes import local_run


class Control:
  """A control that stops the node after its first evaluation, the best so far.

  If it has a file that fills the disk, the node stops once it has reported that
  a file is unwritten.
  """

  def __init__(self, restarts=0, filler=None, free=False):
    self._restarts, self._filler, self._free = restarts, filler, free
    self.evaluations = []

  def register(self, role, index):
    assert (role, index) == ("evaluator", 0)
    return messages.Registration(self._restarts)

  def report(self, role, index, report):
    if self._filler is None:
      return messages.Command(stop=bool(self.evaluations))
    if report.unwritten and self._free:
      self._filler.unlink(missing_ok=True)
    return messages.Command(stop=bool(report.unwritten))

  def finished(self, role, index, report):
    pass

  def evaluated(self, evaluation):
    self.evaluations.append(evaluation)
    return messages.EvaluationReply(is_best=True)


class Data:
  """Addresses of the variables of a run in this process."""

  def __init__(self, run):
    self.make_variables_source = run.variables.make_source


@pytest.fixture
def run_node():
  """Returns a function that runs a node until its control stops it."""
  run = local_run.LocalRun(local_run.make_config())
  run.publish()

  def run_it(path, control):
    link.own_stop_event.set(threading.Event())
    folder = run_folder.RunFolder(path)
    evaluator_node.EvaluatorNode(
      run.config, run.spec, folder, Data(run), control
    ).run()

  return run_it


def test_a_restarted_evaluator_plays_other_episodes(run_node, tmp_path):
  def evaluate(restarts):
    control = Control(restarts)
    run_node(tmp_path, control)
    (evaluation,) = control.evaluations
    return evaluation.returns, evaluation.repeated

  first = evaluate(restarts=0)
  assert evaluate(restarts=0) == first
  assert evaluate(restarts=1) != first


@small_disk.needs_root
@pytest.mark.parametrize("free", [True, False])
def test_the_best_variables_that_a_full_disk_rejected_are_written_at_the_end(
  run_node, tmp_path, caplog, free
):
  with small_disk.mounted(tmp_path / "disk", megabytes=1) as disk:
    run_node(disk, Control(filler=small_disk.fill(disk), free=free))
    assert run_folder.RunFolder(disk).best.exists() == free
  assert ("the newest best.npz is lost" in caplog.text) != free
  outbox.flush()  # other tests of this process begin with an empty outbox
