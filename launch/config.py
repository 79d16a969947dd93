"""The command `slipway config CONFIG`, which shows all fields of a config."""

import sys
from collections.abc import Sequence

from slipway.environments import user_code
from slipway.launch.options import flags as flags_lib
from slipway.launch.options import overrides

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
    Exit status: 0, or 2 if there is no such config.
  """
  names = [a.removeprefix("--config=") for a in argv[1:]]
  if flags_lib.requests_help(argv) or len(names) != 1:
    print(f"{_USAGE}\n\n  slipway config {overrides.DEFAULT_CONFIG}")
    return 0 if flags_lib.requests_help(argv) else 2
  try:
    config = overrides.load(names[0])
    declared = overrides.declared_fields(config)
    print(overrides.help_text(config, declared))
  except (ValueError, user_code.UserCodeError) as error:
    print(f"config: {error}", file=sys.stderr)
    return 2
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
