"""Trains: `python -m launch.train --config=configs/apex_dqn.py:cartpole`."""

import contextlib
import importlib
import pathlib
import sys
import time
from collections.abc import Sequence

import ml_collections
import psutil
from absl import flags as absl_flags

from agents import registry
from configs import validation
from environments import factory
from launch import resumption, train_flags
from launch.processes import signals
from launch.runs import run_folder, run_lock

_USAGE = "Trains an experiment until one of its limits is reached."


def main(argv: Sequence[str]) -> int:
  """Runs a training.

  Returns:
    Exit status: 0 the run ended as it should, 1 it failed, 2 it was refused
    before anything was started.
  """
  started_at_s = psutil.Process().create_time()
  with contextlib.ExitStack() as held:
    try:
      flags = train_flags.parse(argv, _USAGE)
      config = flags.config
      validation.validate(config)
      spec = factory.make_spec(config.environment)
      registry.make_builder(config.agent).check(config, spec)
      prepare = _begin if flags.resume is None else _resume
      folder, said = prepare(flags, held)
    except (ValueError, OSError) as error:
      print(f"train: {error}", file=sys.stderr)
      return 2
    print(said, flush=True)
    try:
      # At once: what a launch imports takes seconds.
      taken = signals.Signals()
      _launch(flags.launch, config, spec, folder, started_at_s, taken)
    except RuntimeError as error:
      print(f"train: {error}", file=sys.stderr)
      return 1
    except KeyboardInterrupt:
      print(
        "train: killed at once; what was not saved is lost", file=sys.stderr
      )
      return 1
    return 0


def _begin(
  flags: absl_flags.FlagValues, held: contextlib.ExitStack
) -> tuple[run_folder.RunFolder, str]:
  """Makes a new run's folder; returns it and what the user is told."""
  name = flags.name or _default_name(flags)
  before = run_folder.RunFolder(pathlib.Path(flags.run_dir, name))
  if flags.overwrite and before.is_run():
    with run_lock.held(before):
      pass  # nobody needs what is deleted now
  folder = run_folder.RunFolder.create(flags.run_dir, name, flags.overwrite)
  held.enter_context(run_lock.held(folder))
  folder.write_config(flags.config)
  return folder, f"run folder: {folder.path}"


def _resume(
  flags: absl_flags.FlagValues, held: contextlib.ExitStack
) -> tuple[run_folder.RunFolder, str]:
  """Makes a run's folder ready to go on; returns the same."""
  folder = run_folder.RunFolder.open(flags.resume)
  held.enter_context(run_lock.held(folder))
  resumed = resumption.Resumption.of(folder, flags.config)
  resumed.begin()
  return folder, f"run folder: {folder.path}\n{resumed}"


def _launch(launch_type: str, config: ml_collections.ConfigDict, *args) -> None:
  name = (
    "single" if config.mode == "single" else train_flags.LAUNCHES[launch_type]
  )
  # Imported late: what the others need would only delay an error or the one.
  importlib.import_module(f"launch.{name}").launch(config, *args)


def _default_name(flags: absl_flags.FlagValues) -> str:
  stamp = time.strftime("%Y%m%d-%H%M%S")
  return f"{train_flags.config_name(flags)}-{stamp}"


if __name__ == "__main__":
  sys.exit(main(sys.argv))
