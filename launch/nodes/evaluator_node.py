"""Evaluator node: runs the evaluator of a distributed run."""

import time

import ml_collections
import msgspec
from absl import logging
from acme import specs

from slipway.agents import registry
from slipway.environments import hanging
from slipway.launch.control import control_service, messages
from slipway.launch.nodes import addresses, evaluator, filming, link
from slipway.launch.runs import outbox, run_folder

_POLL_PERIOD_S = 0.1  # seconds between two polls for new variables


class EvaluatorNode:
  """Node that evaluates the newest variables and saves the best ones."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    data: addresses.DataAddresses,
    control: control_service.ControlService,
  ):
    """Registers the evaluator at the control, and makes the evaluator.

    Args:
      folder: the run's folder, for the best variables and videos.
      data: addresses of the server or proxy that has the variables.
    """
    self._settings = config.evaluation
    self._step_timeout_s = config.environment.step_timeout_s
    self._control = control
    builder = registry.make_builder(config.agent)
    # Episodes of new seeds: an evaluator that repeated those of its earlier
    # processes would repeat an environment's failure, too.
    restarts = control.register("evaluator", 0).restart_count
    self._evaluator = evaluator.Evaluator(
      config, spec, builder, control, folder.best, restarts
    )
    self._variables = data.make_variables_source()
    self._filmer = filming.Filmer(config, folder)

  def run(self) -> None:
    """Evaluates the newest variables periodically until the run stops."""
    with (
      hanging.detect_hanging(self._step_timeout_s),
      link.Link(self._control, "evaluator", 0, self._report) as node_link,
    ):
      while not node_link.wait(_POLL_PERIOD_S):
        outbox.flush()
        newest = self._variables.poll()
        if newest is None:
          continue
        began_s = time.monotonic()
        played = self._evaluator.evaluate(newest, lambda: node_link.stopping)
        if played is not None:
          self._filmer.film(newest)
        took_s = time.monotonic() - began_s
        longest_share = self._settings.max_share
        pause_s = took_s * (1.0 - longest_share) / longest_share
        node_link.wait(max(self._settings.period_s, pause_s))
      outbox.flush()
      if names := outbox.unwritten():
        logging.warning(
          "the disk is full, so the newest %s is lost: free some space, and "
          "resume the run, whose next best evaluation writes it again",
          ", ".join(names),
        )
      self._filmer.close()
      self._evaluator.close()

  def _report(self) -> messages.EvaluatorReport:
    """Returns the evaluator's report, with the files that wait for the disk."""
    return msgspec.structs.replace(
      self._evaluator.report(), unwritten=outbox.unwritten()
    )
