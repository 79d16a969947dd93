"""The actor of Gumbel MuZero, which searches before each step."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents.muzero import network as network_lib
from slipway.agents.muzero import search
from slipway.agents.networks import action_masks, numpy_ops
from slipway.agents.networks import network as acting_lib
from slipway.replay.items import adder

# Names of the actor's extras: the policy that the search found, float32 [B, A],
# and the continuous actions among which it searched, [B, A, D].
POLICY, SAMPLES = "search_policy", "sampled_actions"


class SearchActor:
  """Actor that searches in the model, for all B environments at once.

  Danihelka et al. 2022, "Policy improvement by planning with Gumbel"
  (https://openreview.net/forum?id=bERaNdoegnO); see `core.Actor`.

  Of continuous actions it searches among A samples of the policy per state of
  the model, whose prior is uniform then: Hubert et al. 2021, "Learning and
  planning in complex action spaces" (https://arxiv.org/abs/2104.06303), section
  5.1, with samples of the policy itself. The search counts the samples, which
  follow the numbers of a latent state.
  """

  def __init__(
    self,
    network: network_lib.MuZeroNetwork,
    settings: search.Settings,
    discount: float,
    random: np.random.Generator | None,
    sampled_actions: int,
    random_share: float,
    mask_splitter: action_masks.MaskSplitter | None = None,
  ):
    """Makes the actor; `load` must be called before `act`.

    Args:
      discount: discount of each step of an episode.
      random: generator of the samples, and of the Gumbel noise by which actions
        are chosen, or None for a greedy actor, without Gumbel noise, whose
        samples are the policy's mode and the same deviations from it in all
        states.
      sampled_actions: number of samples of continuous actions.
      random_share: share of the steps in which the action is not the search's
        but any of the allowed ones, or of the samples, unless the actor is
        greedy.
      mask_splitter: splitter of masked observations, or None if observations
        have no masks.
    """
    self._root = acting_lib.make_acting(network)
    self._step = acting_lib.make_acting(network_lib.Step(network, discount))
    self._network, self._settings, self._random = network, settings, random
    self._mask_splitter, self._random_share = mask_splitter, random_share
    # Deviations of a greedy actor's samples from the mode.
    shape = (1, sampled_actions, *network.actions.shape)
    self._noise = np.random.default_rng(0).standard_normal(shape, np.float32)
    self._noise[:, 0] = 0.0

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    del reward, first
    root, model = self._root(observation), self._step
    if self._network.is_continuous:
      root, model = self._add_samples(root), self._step_samples
    gumbel = np.zeros(root.logits.shape, np.float32)
    if self._random is not None:
      gumbel = self._random.gumbel(size=gumbel.shape).astype(np.float32)
    legal = None
    if self._mask_splitter is not None:
      legal = self._mask_splitter.find_legal(observation)
    found = search.search(model, root, gumbel, self._settings, legal)
    chosen = found.action
    if self._random is not None and self._random_share:
      # The largest of equally distributed numbers is a uniform choice.
      odds = self._random.random(gumbel.shape)
      if legal is not None:
        odds *= legal
      is_random = self._random.random(len(odds)) < self._random_share
      chosen = np.where(is_random, odds.argmax(axis=1), chosen)
    extras = {POLICY: found.policy}
    if not self._network.is_continuous:
      return adder.ActorOutput(chosen.astype(np.int32), extras)
    extras[SAMPLES] = self._find_samples(root.state)
    action = extras[SAMPLES][np.arange(len(root.state)), chosen]
    return adder.ActorOutput(action, extras)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    self._root.load(variables)
    self._step.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    return {"random": self._random and self._random.bit_generator.state}

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    if self._random is not None:
      self._random.bit_generator.state = state["random"]

  def _step_samples(self, state: np.ndarray, index: np.ndarray) -> search.Step:
    """Returns the model's step by samples, with samples of the next states."""
    action = self._find_samples(state)[np.arange(len(state)), index]
    latent = state[:, : self._network.state_size]
    return self._add_samples(self._step(latent, action))

  def _add_samples(self, outputs: typing.Any) -> typing.Any:
    """Returns a root or step whose policy is that of samples of its policy."""
    policy = self._network.distribution(numpy_ops, outputs.logits).normal
    noise = self._noise
    if self._random is not None:
      shape = (len(policy.mean), *self._noise.shape[1:])
      noise = self._random.standard_normal(shape, np.float32)
    mean, std = policy.mean[:, None], np.exp(policy.log_std)[:, None]
    samples = np.tanh(mean + std * noise)
    return outputs._replace(
      logits=np.zeros(samples.shape[:2], np.float32),
      state=np.concatenate(
        [outputs.state, samples.reshape(len(samples), -1)], axis=1
      ),
    )

  def _find_samples(self, state: np.ndarray) -> np.ndarray:
    """Returns the samples [B, A, D] in states of `_add_samples`."""
    samples = state[:, self._network.state_size :]
    return samples.reshape(len(state), -1, *self._network.actions.shape)
