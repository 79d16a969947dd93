# Types of what Slipway uses of ml_collections.config_flags.
from typing import Any

from absl import flags
from ml_collections import ConfigDict

def DEFINE_config_file(
  name: str, default: str | None = ..., help_string: str = ..., **kwargs: Any
) -> flags.FlagHolder[ConfigDict]: ...
def DEFINE_config_dict(
  name: str, config: ConfigDict, help_string: str = ..., **kwargs: Any
) -> flags.FlagHolder[ConfigDict]: ...
def get_config_filename(config_flag: Any) -> str: ...
