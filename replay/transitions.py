"""What one item of a replay table holds, and how it is laid out."""

import typing

import numpy as np
from acme import specs

from replay import packing

# The field that says which version of the variables chose the transition's
# first action. It is no part of what is learned from, but of the item.
VERSION = "version"  # [] int64


class Transition(typing.NamedTuple):
  """An n-step transition; a batch of them has a leading [B] in each field."""

  o_tm1: typing.Any  # [...] observation, as the environment gave it
  a_tm1: typing.Any  # [] int32, or [A] float32
  r_t: typing.Any  # [] float32: sum of gamma^i * reward over k <= n steps
  discount_t: typing.Any  # [] float32: gamma^k, or 0 where terminated
  o_t: typing.Any  # [...] observation, k steps later


def make_packing(spec: specs.EnvironmentSpec) -> packing.Packing:
  """The byte layout of a `Transition` of this environment, and `VERSION`."""
  observation = (spec.observations.dtype, spec.observations.shape)
  return packing.Packing(
    {
      "o_tm1": observation,
      "a_tm1": (spec.actions.dtype, spec.actions.shape),
      "r_t": (np.dtype(np.float32), ()),
      "discount_t": (np.dtype(np.float32), ()),
      "o_t": observation,
      VERSION: (np.dtype(np.int64), ()),
    }
  )
