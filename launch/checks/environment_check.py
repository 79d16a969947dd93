"""Environment check: makes and steps an environment before a run starts.

The user's code may hang meanwhile. So a long wait is reported, and a timeout
ends the process.
"""

import signal
import sys
import threading
from collections.abc import Callable

import ml_collections

from slipway.environments import factory, ids, specs
from slipway.launch.processes import hung_process

# Returns the spec of the environments of a config's section `environment`.
SpecFunction = Callable[[ml_collections.ConfigDict], specs.EnvironmentSpec]

# Seconds after which the user is informed that the command waits.
_NOTICE_AFTER_S = 15.0
# Timers that an environment may leave behind, whose signals would end this
# process later.
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def make_spec(
  config: ml_collections.ConfigDict, command: str, clean_up: Callable[[], None]
) -> specs.EnvironmentSpec:
  """Returns the spec of a config's environments; see `factory.make_spec`.

  If that takes longer than 15 s, one line on standard error names the
  environment. If its reset or step takes longer than `step_timeout_s`, this
  process ends with the line of that error, and with exit status 2.

  Args:
    config: section `environment` of a config.
    command: name of the user's command, with which each line begins.
    clean_up: function that kills what the environment has started; it is called
      if the environment hangs.

  Raises:
    Exception: as `factory.make_spec`.
  """
  notice = threading.Timer(_NOTICE_AFTER_S, _report_wait, (config, command))
  notice.daemon = True
  notice.start()
  try:
    with hung_process.ending(config.step_timeout_s, 2, command, clean_up):
      return factory.make_spec(config)
  finally:
    notice.cancel()
    for timer in _TIMERS:
      signal.setitimer(timer, 0.0)


def remember(make_spec: SpecFunction) -> SpecFunction:
  """Returns the function with a memory: it makes each environment once."""
  known: dict[str, specs.EnvironmentSpec] = {}

  def make_once(config: ml_collections.ConfigDict) -> specs.EnvironmentSpec:
    text = repr(config.to_dict())
    if text not in known:
      known[text] = make_spec(config)
    return known[text]

  return make_once


def _report_wait(config: ml_collections.ConfigDict, command: str) -> None:
  """Prints that the command waits for the environment."""
  print(
    f"{command}: still waits after {_NOTICE_AFTER_S:.0f} s for the environment "
    f"{ids.get_name_and_kwargs(config)[0]}, which is made, reset, stepped "
    "and closed before the start; config.environment.step_timeout_s="
    f"{config.step_timeout_s:g} limits reset and step (0: no limit)",
    file=sys.stderr,
    flush=True,
  )
