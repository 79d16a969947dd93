"""The command `slipway inspect RUN`: what a run's table and policy are like.

A snapshot is read by this process from its files, so a running trainer is not
disturbed. To request samples of its server would change the counts of samples.
"""

import pathlib
import time
from collections.abc import Sequence

import ml_collections
import rich.console

from slipway.agents import registry
from slipway.configs import base
from slipway.environments import factory, user_code
from slipway.launch.api import running
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import run_config
from slipway.launch.display import standard_streams
from slipway.launch.inspection import report
from slipway.launch.processes import hung_process
from slipway.launch.runs import (
  recorded_spaces,
  records,
  run_counters,
  run_folder,
  snapshot_store,
)

# Sentences that begin the help.
_USAGE = """\
Shows what a run's replay table held and what its policy does, at its newest
snapshot.

  slipway inspect runs/first
  slipway inspect runs/first --save --pictures=pictures

The run may be active. Its trainer is not disturbed, unless --save requests a
new snapshot."""
_SEED = 3_000_000  # of the environments; differs from those of training


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> None:
  """Inspects a run, and prints what it has found.

  Raises:
    ValueError: a flag is invalid, or there is nothing to inspect.
    RunUnavailableError: the run does not save itself.
    UserCodeError: the environment failed.
  """
  flags = _define_flags()
  folder = run_folder.RunFolder.open(flags.parse_run(argv, _USAGE), flags.trust)
  config = run_config.read(folder.path, flags.trust)
  snapshot = running.find_snapshot(folder, flags.save)
  timeout_s = config.environment.step_timeout_s
  with (
    standard_streams.diverting_output(flags.json),
    hung_process.ending(timeout_s, 1, "inspect", lambda: None),
  ):
    found = _inspect(folder, config, snapshot, flags)
  if flags.json:
    print(records.to_json(report.to_values(found)).decode(), end="")
  else:
    console = rich.console.Console(highlight=False)
    console.print(*report.render(found), sep="\n")


def _inspect(
  folder: run_folder.RunFolder,
  config: ml_collections.ConfigDict,
  snapshot: snapshot_store.Snapshot,
  flags: flags_lib.Flags,
) -> report.Report:
  """Inspects a snapshot."""
  # Imported late: they load TensorFlow.
  from slipway.launch.inspection import policy, table

  path, pictures = snapshot.path, None
  if flags.pictures is not None:
    pictures = pathlib.Path(flags.pictures)
    pictures.mkdir(parents=True, exist_ok=True)
  status = run_counters.RunCounters.read(path).status
  began_s = (path / run_counters.FILE).stat().st_mtime
  steps, version = status.trainer_steps, status.variables.version
  found = {
    "snapshot": [
      report.Row("snapshot", snapshot.number, f"of {folder.name}"),
      report.Row("age_s", max(0.0, time.time() - began_s), "seconds ago"),
      report.Row("env_steps", status.env_steps, "environment steps until then"),
      report.Row("trainer_steps", steps, "updates of the learner until then"),
      report.Row("version", version, "of the variables then"),
    ]
  }
  environment = factory.make(
    base.get_evaluation_environment(config),
    max(1, flags.episodes),
    _SEED,
    role="evaluator",
  )
  recorded_spaces.check(folder, environment.name, environment.spec)
  builder = registry.make_builder(config.agent)
  if status.replay is None:
    reason = "the run learns from recorded episodes only"
    found["table"] = [report.Row("none", reason)]
  elif status.replay.is_queue:
    reason = "it is a queue, which items leave as soon as they are sampled"
    found["table"] = [report.Row("none", reason)]
  else:
    schema = builder.make_table(config, environment.spec).schema
    found |= table.inspect(path, config, schema, steps, flags.items, pictures)
  if flags.episodes and not config.environment.external:
    found |= policy.inspect(path, config, builder, environment)
  environment.close()
  return found


def _define_flags() -> flags_lib.Flags:
  """Returns the flags of `slipway inspect`, before parsing."""
  flags = flags_lib.Flags()
  flags.add_bool("save", False, "Let an active run write a new snapshot first.")
  flags.add_integer(
    "items",
    2,
    "Number of items to show in full at each end of the order: those of the "
    "highest and lowest priority, or the newest and oldest ones.",
    0,
    1000,
  )
  flags.add_text(
    "pictures",
    None,
    "Folder for PNG files of these items' observations, if they are images.",
  )
  flags.add_integer(
    "episodes", 5, "Number of episodes to play; 0: no policy.", 0, 100
  )
  flags.add_bool("json", False, "Print all numbers as JSON.")
  flags.add_trust()
  return flags
