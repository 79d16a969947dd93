"""The command `slipway config CONFIG`, which shows all fields of a config."""

from collections.abc import Sequence

from slipway.environments import user_code
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import overrides

# Text that begins the help.
_USAGE = (
  "Shows all fields of a config, with their values, units and sources. The "
  "argument is a built-in name, ALGORITHM:PRESET, or the path of a file.\n\n"
  f"  slipway config {overrides.DEFAULT_CONFIG}"
)


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> None:
  """Prints each field of a config, with its flag, value and meaning.

  Raises:
    ValueError: there is no such config, or a further argument is given.
    UserCodeError: the config's file failed.
  """
  config = overrides.load(_find_name(argv))
  declared = overrides.declared_fields(config)
  print(overrides.help_text(config, declared))


def _find_name(argv: Sequence[str]) -> str:
  """Returns the config's name, the only argument of the command."""
  flags = flags_lib.Flags()
  flags.add_text("config", None, "The config, which may also be a word.")
  for change in filter(overrides.is_override, flags.split(argv).others):
    raise ValueError(
      f"{change} is no flag of this command, which shows a config without "
      "changes, so it would do nothing: leave it out"
    )
  words = flags.parse(argv, _USAGE, has_words=True)
  given = [*words, *([flags.config] if flags.config else [])]
  if len(given) != 1:
    raise ValueError(
      f"{len(given)} configs are given, and the command shows one: give "
      f"ALGORITHM:PRESET, such as {overrides.DEFAULT_CONFIG}"
    )
  return given[0]
