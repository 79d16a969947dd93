"""Makes plans of sweeps for the tests."""

from slipway.launch.sweeps import sweep_folder


def make_plan(settings, seeds):
  return sweep_folder.Plan(
    flags=[],
    working_folder="",
    vary=[],
    search="grid",
    search_seed=0,
    max_settings=1,
    seeds=seeds,
    settings=settings,
  )
