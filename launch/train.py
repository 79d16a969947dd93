"""Trains: `python -m launch.train --config=configs/apex_dqn.py:cartpole`."""

import sys
import time
from collections.abc import Sequence

import psutil

from agents import registry
from configs import validation
from environments import factory
from launch import flags as flags_lib
from launch import run_folder

_USAGE = "Trains an experiment until one of its limits is reached."


def main(argv: Sequence[str]) -> int:
  """Runs a training.

  Returns:
    Exit status: 0 the run ended as it should, 1 it failed, 2 it was refused
    before anything was started.
  """
  started_at_s = psutil.Process().create_time()
  try:
    flags = flags_lib.parse_train(argv, _USAGE)
    config = flags.config
    validation.validate(config)
    spec = factory.make_spec(config.environment)
    registry.make_builder(config.agent).check(config, spec)
    folder = run_folder.RunFolder.create(
      flags.run_dir, flags.name or _default_name(flags), flags.overwrite
    )
    folder.write_config(config)
  except (ValueError, OSError) as error:
    print(f"train: {error}", file=sys.stderr)
    return 2
  print(f"run folder: {folder.path}", flush=True)
  try:
    _launch(flags.launch, config, spec, folder, started_at_s)
  except RuntimeError as error:
    print(f"train: {error}", file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print("train: killed at once; what was not saved is lost", file=sys.stderr)
    return 1
  return 0


def _launch(launch_type, config, spec, folder, started_at_s) -> None:
  # Imported late: what the others need would only delay an error or the one.
  if launch_type == "single":
    from launch import single

    single.launch(config, spec, folder, started_at_s)
  elif launch_type == "local_mt":
    from launch import local_threads

    local_threads.launch(config, spec, folder, started_at_s)
  else:
    from launch import local

    local.launch(config, spec, folder, started_at_s)


def _default_name(flags) -> str:
  stamp = time.strftime("%Y%m%d-%H%M%S")
  return f"{flags_lib.config_name(flags)}-{stamp}"


if __name__ == "__main__":
  sys.exit(main(sys.argv))
