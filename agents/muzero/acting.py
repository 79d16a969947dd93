"""The actor of Gumbel MuZero, which searches before each step."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import epsilon_greedy
from slipway.agents.muzero import network as network_lib
from slipway.agents.muzero import search
from slipway.agents.networks import action_masks
from slipway.agents.networks import network as acting_lib
from slipway.replay.items import adder

# Names of the actor's extras: the policy that the search found, float32 [B, A],
# and the value of the observation, float32 [B].
POLICY, VALUE = "search_policy", epsilon_greedy.VALUE_OF_STATE


class SearchActor:
  """Actor that searches in the model, for all B environments at once.

  Danihelka et al. 2022, "Policy improvement by planning with Gumbel"
  (https://openreview.net/forum?id=bERaNdoegnO); see `core.Actor`.
  """

  def __init__(
    self,
    network: network_lib.MuZeroNetwork,
    settings: search.Settings,
    random: np.random.Generator | None,
    mask_splitter: action_masks.MaskSplitter | None = None,
  ):
    """Makes the actor; `load` must be called before `act`.

    Args:
      random: generator of the Gumbel noise by which actions are sampled, or
        None for a greedy actor, without noise.
      mask_splitter: splitter of masked observations, or None if observations
        have no masks.
    """
    self._root = acting_lib.make_acting(network)
    self._step = acting_lib.make_acting(network_lib.Step(network))
    self._settings, self._random = settings, random
    self._mask_splitter = mask_splitter

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    del reward, first
    root = self._root(observation)
    gumbel = np.zeros(root.logits.shape, np.float32)
    if self._random is not None:
      gumbel = self._random.gumbel(size=gumbel.shape).astype(np.float32)
    legal = None
    if self._mask_splitter is not None:
      legal = self._mask_splitter.find_legal(observation)
    found = search.search(self._step, root, gumbel, self._settings, legal)
    return adder.ActorOutput(
      found.action.astype(np.int32), {POLICY: found.policy, VALUE: found.value}
    )

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    self._root.load(variables)
    self._step.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    return {"random": self._random and self._random.bit_generator.state}

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    if self._random is not None:
      self._random.bit_generator.state = state["random"]
