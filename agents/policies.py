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
  recurrent,
)
from slipway.agents.networks import network as network_lib
from slipway.environments import arrays
from slipway.replay.items import adder

# Names of extras: log-probabilities of the actions, float32 [B], and parameters
# of the distributions that they were sampled from, float32 [B, P].
LOG_PROB, PARAMETERS = "log_prob", "parameters"
POLICY = "policy"  # prefix of the names of the policy's variables

Declaration = actor_critic.PolicyNetwork | actor_critic.RecurrentPolicyNetwork


def make_policy(
  network: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  continuous: str = "gaussian",
  normalized: bool = False,
) -> actor_critic.PolicyNetwork:
  """Declares the policy of a config.

  Args:
    network: the `network` section of a config, with the fields of
      `groups.POLICY`.
    spec: spec of one environment.
    continuous: distribution of continuous actions, one of
      `distributions.CONTINUOUS`. Ignored if actions are discrete.
    normalized: whether the network normalizes observations; see
      `actor_critic.PolicyNetwork`.
  """
  return actor_critic.PolicyNetwork(
    spec,
    network.torso,
    network.hidden_sizes,
    choose_distribution_kind(spec, continuous),
    network.activation,
    network.orthogonal,
    normalized,
  )


def make_recurrent_policy(
  network: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  continuous: str = "gaussian",
  normalized: bool = False,
  with_values: bool = False,
) -> actor_critic.RecurrentPolicyNetwork:
  """Declares the recurrent policy of a config with `network.lstm_size`.

  Args:
    network: the `network` section of a config, with the fields of
      `groups.POLICY`.
    spec: spec of one environment.
    continuous: distribution of continuous actions; see `make_policy`.
    normalized: whether the network normalizes observations; see
      `actor_critic.PolicyNetwork`.
    with_values: whether the network also computes values, for learners.
  """
  torso = recurrent.RecurrentTorso(
    spec,
    network.torso,
    network.hidden_sizes,
    network.lstm_size,
    network.activation,
    actor_critic.hidden_gain(network.orthogonal),
    normalized,
  )
  kind = choose_distribution_kind(spec, continuous)
  head = actor_critic.PolicyHead(spec, kind, network.orthogonal)
  return actor_critic.RecurrentPolicyNetwork(
    torso, head, network.orthogonal, with_values
  )


def choose_distribution_kind(spec: specs.EnvironmentSpec, continuous: str) -> str:
  """Returns the kind of distribution for an environment's actions.

  Args:
    spec: spec of one environment.
    continuous: kind that is returned for continuous actions.
  """
  if isinstance(spec.actions, specs.DiscreteArray):
    return "categorical"
  if isinstance(spec.actions, arrays.MultiDiscreteArray):
    return "product_categorical"
  return continuous


class PolicyActor:
  """Actor that samples actions from a policy, or takes the policy's modes."""

  def __init__(self, policy: Declaration, random: np.random.Generator | None):
    """Starts without variables.

    Args:
      policy: declaration of the policy's network.
      random: generator for samples, or None to take the policy's modes.
    """
    self._policy, self._random = policy, random
    self._network = network_lib.make_acting(policy, POLICY)
    self._memory: recurrent.ActorMemory | None = None
    if isinstance(policy, actor_critic.RecurrentPolicyNetwork):
      self._memory = recurrent.ActorMemory(policy.inputs)

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    """Acts on observations [B, ...]; see `core.Actor`."""
    if self._memory is None:
      return self._choose(self._network(observation))
    action_before, state_before = self._memory.recall(len(observation))
    parameters, state = self._network(
      observation, action_before, reward, first, state_before
    )
    output = self._choose(parameters)
    self._memory.store(output.action, state)
    return output._replace(
      extras={**output.extras, recurrent.STATE: state_before}
    )

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the variables by a learner's."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """Returns the state of the random numbers and a copy of any memory."""
    return {
      "random": self._random and self._random.bit_generator.state,
      "memory": self._memory and self._memory.get_state(),
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned."""
    if self._random is not None:
      self._random.bit_generator.state = state["random"]
    if self._memory is not None:
      self._memory.set_state(state["memory"])

  def _choose(self, parameters: np.ndarray) -> adder.ActorOutput:
    """Returns actions for the distributions' parameters [B, P].

    A greedy actor returns the modes, without extras. Another one returns
    samples; the extras are their log-probabilities and the parameters.
    """
    policy = self._policy.distribution(numpy_ops, parameters)
    if self._random is None:
      return adder.ActorOutput(policy.mode(), {})
    if isinstance(policy, distributions.TanhGaussian):
      action, log_prob = policy.sample_with_log_prob(self._random)
    else:
      action = policy.sample(self._random)
      log_prob = policy.log_prob(action)
    return adder.ActorOutput(
      action, {LOG_PROB: log_prob, PARAMETERS: parameters}
    )


class PolicyBuilder:
  """Base class of Builders whose algorithms learn a policy; makes the actors.

  Attributes:
    continuous: distribution of continuous actions; see `make_policy`.
  """

  continuous = "gaussian"

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Declaration:
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
    """Makes the actor for evaluation, which takes the policy's modes."""
    return PolicyActor(self.make_network(config, spec), None)
