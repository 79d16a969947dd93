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

LOG_PROB = "log_prob"  # extra: float32 [B], of the actions
PARAMETERS = "parameters"  # extra: float32 [B, P], of the distributions
POLICY = "policy"  # prefix of the policy's variables

Declaration = actor_critic.PolicyNetwork | actor_critic.RecurrentPolicyNetwork


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
      `distributions.CONTINUOUS`; that of discrete ones is categorical, or a
      product of categorical ones.
    normalized: as of `actor_critic.PolicyNetwork`.
  """
  return actor_critic.PolicyNetwork(
    spec,
    network.torso,
    network.hidden_sizes,
    choose_kind(spec, continuous),
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
    network: as of `make_policy`.
    spec: of one environment.
    continuous: as of `make_policy`.
    normalized: as of `actor_critic.PolicyNetwork`.
    with_values: as of `actor_critic.RecurrentPolicyNetwork`.
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
  kind = choose_kind(spec, continuous)
  head = actor_critic.PolicyHead(spec, kind, network.orthogonal)
  return actor_critic.RecurrentPolicyNetwork(
    torso, head, network.orthogonal, with_values
  )


def choose_kind(spec: specs.EnvironmentSpec, continuous: str) -> str:
  """Returns the distribution of an environment's actions.

  Args:
    spec: of one environment.
    continuous: the one of continuous actions.
  """
  if isinstance(spec.actions, specs.DiscreteArray):
    return "categorical"
  if isinstance(spec.actions, arrays.MultiDiscreteArray):
    return "product_categorical"
  return continuous


class PolicyActor:
  """Samples from a policy, or takes its mode."""

  def __init__(self, policy: Declaration, random: np.random.Generator | None):
    """Starts without variables.

    Args:
      policy: declares the network.
      random: of the samples; None: actions are the policy's modes.
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
    before = self._memory.recall(len(observation))
    parameters, state = self._network(
      observation, before[0], reward, first, before[1]
    )
    output = self._choose(parameters)
    self._memory.store(output.action, state)
    return output._replace(extras={**output.extras, recurrent.STATE: before[1]})

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Acts by a learner's variables from now on."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """Returns the state of the random numbers, and any memory."""
    return {
      "random": self._random and self._random.bit_generator.state,
      "memory": self._memory and self._memory.get_state(),
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues as the actor would have whose state was taken."""
    if self._random is not None:
      self._random.bit_generator.state = state["random"]
    if self._memory is not None:
      self._memory.set_state(state["memory"])

  def _choose(self, parameters: np.ndarray) -> adder.ActorOutput:
    """Returns actions for parameters [B, P], and what learners store."""
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


class PolicyActors:
  """The actors of a Builder whose algorithm learns a policy.

  Attributes:
    continuous: the distribution of continuous actions; see `make_policy`.
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
    """Makes the actor that is evaluated, which takes the policy's mode."""
    return PolicyActor(self.make_network(config, spec), None)
