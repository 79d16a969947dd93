"""Devices: the GPU on which TensorFlow computes, if this process sees one.

`slipway.launch.processes.processors` decides which processes see a GPU.
"""

import functools

import tensorflow as tf


@functools.cache
def find_gpu() -> str | None:
  """Returns the name of the GPU on which TensorFlow computes, or None.

  TensorFlow places operations on its first GPU unless code names a device.
  The first call initializes CUDA, which does not survive a fork.
  """
  return "/gpu:0" if tf.config.list_physical_devices("GPU") else None


def check(device: str) -> None:
  """Checks that the device of `config.learner.device` is there.

  Args:
    device: 'auto', 'cpu' or 'gpu:N'.

  Raises:
    ValueError: a GPU is wanted, and TensorFlow finds none.
  """
  if device.startswith("gpu") and find_gpu() is None:
    raise ValueError(
      f"config.learner.device={device}, but TensorFlow finds no such GPU, so "
      "nothing could be learned there: see what `nvidia-smi` lists and whether "
      "its driver supports CUDA 12.2, or use learner.device=auto"
    )
