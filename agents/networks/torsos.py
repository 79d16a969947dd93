"""Which torso serves which observations."""

import ml_collections
import numpy as np
from acme import specs


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError, one line, if the torso can't take the observations."""
  shape, dtype = spec.observations.shape, spec.observations.dtype
  if config.torso == "minatar_cnn" and (len(shape) != 3 or min(shape[:2]) < 3):
    raise ValueError(
      f"config.network.torso='minatar_cnn' takes boards [height >= 3, width >= "
      f"3, channels], but the environment gives {dtype} {list(shape)}: use "
      "--config.network.torso=mlp"
    )
  if config.torso != "nature_cnn":
    return
  if len(shape) != 3 or dtype != np.uint8 or min(shape[1:]) < 36:
    raise ValueError(
      f"config.network.torso='nature_cnn' takes uint8 frames [stack, "
      f"height >= 36, width >= 36], but the environment gives {dtype} "
      f"{list(shape)}: use --config.network.torso=mlp"
    )
