"""Actors of policies: families that learn pi(a | o) share them."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import seeds
from slipway.agents.networks import (
  actor_critic,
  distributions,
  normalization,
  numpy_ops,
)
from slipway.agents.networks import network as network_lib
from slipway.environments import arrays
from slipway.replay.items import adder

LOG_PROB = "log_prob"  # extra: float32 [B], of the actions
POLICY = "policy"  # prefix of the policy's variables


def make_policy(
  network: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  continuous: str = "gaussian",
  normalized: bool = False,
) -> actor_critic.PolicyNetwork:
  """Declares the policy of a config.

  Args:
    network: the section of the config, with the fields of `groups.POLICY`.
    spec: of one environment.
    continuous: the distribution of continuous actions, one of
      `distributions.KINDS`; that of discrete ones is categorical, or a product
      of categorical ones.
    normalized: as of `actor_critic.PolicyNetwork`.
  """
  kind = continuous
  if isinstance(spec.actions, specs.DiscreteArray):
    kind = "categorical"
  elif isinstance(spec.actions, arrays.MultiDiscreteArray):
    kind = "product_categorical"
  return actor_critic.PolicyNetwork(
    spec,
    network.torso,
    network.hidden_sizes,
    kind,
    network.activation,
    network.orthogonal,
    normalized,
  )


class PolicyActor:
  """Samples from a policy, or takes its mode."""

  def __init__(
    self, policy: actor_critic.PolicyNetwork, random: np.random.Generator | None
  ):
    """Starts without variables.

    Args:
      policy: declares the network.
      random: of the samples; None: actions are the policy's modes.
    """
    self._policy, self._random = policy, random
    self._network = network_lib.make_acting(policy, POLICY)

  def act(
    self,
    observation: np.ndarray,
    reward: np.ndarray | None = None,
    first: np.ndarray | None = None,
  ) -> adder.ActorOutput:
    """Acts on observations [B, ...]; the other arguments have no effect."""
    del reward, first
    parameters = self._network(observation)
    policy = self._policy.distribution(numpy_ops, parameters)
    if self._random is None:
      return adder.ActorOutput(policy.mode(), {})
    if isinstance(policy, distributions.TanhGaussian):
      action, log_prob = policy.sample_with_log_prob(self._random)
    else:
      action = policy.sample(self._random)
      log_prob = policy.log_prob(action)
    return adder.ActorOutput(action, {LOG_PROB: log_prob})

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Acts by a learner's variables from now on."""
    self._network.load(variables)

  def get_state(self) -> typing.Any:
    """Returns the state of the random numbers; None: there are none."""
    return self._random and self._random.bit_generator.state

  def set_state(self, state: typing.Any) -> None:
    """Continues as the actor would have whose state was taken."""
    if self._random is not None:
      self._random.bit_generator.state = state


class PolicyActors:
  """The actors of a Builder whose algorithm learns a policy.

  Attributes:
    continuous: the distribution of continuous actions; see `make_policy`.
  """

  continuous = "gaussian"

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> actor_critic.PolicyNetwork:
    """Declares the policy, the network that acts."""
    return make_policy(
      config.network,
      spec,
      self.continuous,
      normalization.normalizes_observations(config),
    )

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    env_steps: int = 0,
  ) -> PolicyActor:
    """Makes the actor of a worker, which samples; see `core.Builder`."""
    del env_steps
    seed = seeds.for_restart(config.seed + worker, restarts)
    return PolicyActor(
      self.make_network(config, spec), np.random.default_rng(seed)
    )

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> PolicyActor:
    """Makes the actor that is evaluated, which takes the policy's mode."""
    return PolicyActor(self.make_network(config, spec), None)
