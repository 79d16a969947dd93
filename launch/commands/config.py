"""The command `slipway config CONFIG`, which shows all fields of a config."""

import sys
from collections.abc import Sequence

from slipway.environments import user_code
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import overrides

# Text that begins the help.
_USAGE = (
  "Shows all fields of a config, with their values, units and sources. The "
  "argument is a built-in name, ALGORITHM:PRESET, or the path of a file."
)


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> int:
  """Prints each field of a config, with its flag, value and meaning.

  Args:
    argv: the program's name, and the config's name or path.

  Returns:
    Exit status: 0, or 2 if there is no such config or a further argument.
  """
  if flags_lib.requests_help(argv):
    print(f"{_USAGE}\n\n  slipway config {overrides.DEFAULT_CONFIG}")
    return 0
  try:
    config = overrides.load(_find_name(argv[1:]))
    declared = overrides.declared_fields(config)
    print(overrides.help_text(config, declared))
  except (ValueError, user_code.UserCodeError) as error:
    print(f"config: {error}", file=sys.stderr)
    return 2
  return 0


def _find_name(arguments: Sequence[str]) -> str:
  """Returns the config's name, the only argument of the command."""
  given = [a.removeprefix("--config=") for a in arguments if a != "--config"]
  flag = next((a for a in given if a.startswith("-")), None)
  if flag is not None:
    raise ValueError(
      f"{flag} is no flag of this command, which shows a config without "
      "changes, so it would do nothing: leave it out"
    )
  if len(given) != 1:
    raise ValueError(
      f"{len(given)} configs are given, and the command shows one: give "
      f"ALGORITHM:PRESET, such as {overrides.DEFAULT_CONFIG}"
    )
  return given[0]


if __name__ == "__main__":
  sys.exit(main(sys.argv))
