"""Policy networks and actors of the families that learn a policy pi(a | o)."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
from acme import specs

from slipway.agents import seeds
from slipway.agents.networks import (
  cores,
  encoder_network,
  generative_policy,
  layers,
  normalization,
  numpy_ops,
  policy_head,
  policy_network,
  recurrent,
  recurrent_policy_network,
)
from slipway.agents.networks import network as network_lib
from slipway.configs import fields
from slipway.environments import arrays
from slipway.replay.items import adder

# Names of extras of `PolicyActor`: log-probabilities of the sampled actions,
# float32 [B], and parameters of the distributions pi(. | o), float32 [B, P].
LOG_PROB, PARAMETERS = "log_prob", "parameters"
# Name of the policy's network, and prefix of its variables: 'policy/output/w'.
POLICY = "policy"

# Declaration of a policy's network, feed-forward or recurrent.
Declaration = (
  policy_network.PolicyNetwork
  | recurrent_policy_network.RecurrentPolicyNetwork
  | encoder_network.EncodedPolicy
  | generative_policy.GenerativePolicy
)


def make_policy(
  network: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  continuous: str = "gaussian",
  normalized: bool = False,
) -> policy_network.PolicyNetwork:
  """Returns the declaration of a config's feed-forward policy network.

  Args:
    continuous: distribution of continuous actions, one of
      `distributions.CONTINUOUS`. Ignored if actions are discrete.
  """
  settings = layers.TorsoSettings.from_config(network, normalized)
  kind = choose_distribution_kind(spec, continuous)
  return policy_network.PolicyNetwork(spec, settings, kind)


def make_recurrent_policy(
  network: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  continuous: str = "gaussian",
  normalized: bool = False,
  role: str = "evaluator",
) -> recurrent_policy_network.RecurrentPolicyNetwork:
  """Returns the declaration of a config's recurrent policy network.

  Unless `network.shared`, state values have a torso and a core of their own.
  Arguments are those of `make_policy`.

  Args:
    role: 'evaluator', for the policy alone; 'worker', with the core of the
      state values, whose state rollouts store; or 'learner', with the values.
  """
  settings = layers.TorsoSettings.from_config(network, normalized)

  def make_torso(scope: str) -> recurrent.RecurrentTorso:
    return recurrent.RecurrentTorso(spec, settings, cores.make(network), scope)

  kind = choose_distribution_kind(spec, continuous)
  has_value_torso = role != "evaluator" and not network.shared
  return recurrent_policy_network.RecurrentPolicyNetwork(
    make_torso(""),
    policy_head.PolicyHead(spec, kind, settings.scheme),
    make_torso("value") if has_value_torso else None,
    settings.scheme.values if role == "learner" else None,
  )


def choose_distribution_kind(
  spec: specs.EnvironmentSpec, continuous: str
) -> str:
  """Returns the one of `distributions.KINDS` for an environment's actions.

  Args:
    continuous: name that is returned if actions are continuous.
  """
  if isinstance(spec.actions, specs.DiscreteArray):
    return "categorical"
  if isinstance(spec.actions, arrays.MultiDiscreteArray):
    return "product_categorical"
  return continuous


class PolicyActor:
  """Actor that samples a policy's actions, or takes the most probable ones.

  Feed-forward and recurrent policies are supported; see `core.Actor`.
  """

  def __init__(self, policy: Declaration, random: np.random.Generator | None):
    """Makes the actor; `load` must be called before `act`.

    Args:
      random: generator for samples, or None for a greedy actor, which takes the
        modes of the distributions.
    """
    self._policy, self._random = policy, random
    self._network = network_lib.make_acting(policy, POLICY)
    self._memory: recurrent.ActorMemory | None = None
    if len(policy.inputs) > 1:
      self._memory = recurrent.ActorMemory(policy.inputs)

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    if self._memory is None:
      return self.choose(self._network(observation), observation, first)
    action_before, state_before = self._memory.recall(len(observation))
    parameters, state = self._network(
      observation, action_before, reward, first, state_before
    )
    output = self.choose(parameters, observation, first)
    self._memory.store(output.action, state)
    return output._replace(
      extras={**output.extras, recurrent.STATE: state_before}
    )

  def log_prob(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Returns log pi(action given observation) of discrete actions, [B].

    Args:
      observation: observations of a feed-forward network, [B, ...].
      action: actions, int32 [B].
    """
    parameters = self._network(observation)
    policy = self._policy.head.distribution(numpy_ops, parameters)
    if self._random is None:
      return np.where(policy.mode() == action, 0.0, -np.inf)
    return policy.log_prob(action)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    return {
      "random": self._random and self._random.bit_generator.state,
      "memory": self._memory and self._memory.get_state(),
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    if self._random is not None:
      self._random.bit_generator.state = state["random"]
    if self._memory is not None:
      self._memory.set_state(state["memory"])

  def choose(
    self, parameters: np.ndarray, observation: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    """Returns actions [B, ...] and extras.

    Args:
      parameters: parameters of the actions' distributions, [B, P].
      observation: observations, [B, ...].
      first: whether an observation begins an episode, [B].
    """
    del observation, first
    policy = self._policy.head.distribution(numpy_ops, parameters)
    if self._random is None:
      return adder.ActorOutput(policy.mode(), {})
    action = policy.sample(self._random)
    # That of the stored action, as the learner's: a tanh may have rounded it.
    log_prob = policy.log_prob(action)
    return adder.ActorOutput(
      action, {LOG_PROB: log_prob, PARAMETERS: parameters}
    )


class PolicyBuilder:
  """Base class of builders of algorithms that learn a policy pi(a | o).

  It makes the network and the actors; see `core.Builder`.
  """

  def make_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Declaration:
    """Returns the declaration of the policy's network, which actors use."""
    return make_policy(
      config.network,
      spec,
      "gaussian",
      normalization.normalizes_observations(config),
    )

  def make_worker_network(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> Declaration:
    """Returns the network of workers' actors: by default, the policy's."""
    return self.make_network(config, spec)

  def make_actor(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    worker: int,
    restarts: int = 0,
    earlier_env_steps: int = 0,
  ) -> PolicyActor:
    """Makes the actor of one worker, which samples the policy's actions."""
    del earlier_env_steps
    seed = seeds.for_worker(config.seed, worker, restarts)
    return PolicyActor(
      self.make_worker_network(config, spec), np.random.default_rng(seed)
    )

  def make_greedy_actor(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> PolicyActor:
    """Makes the evaluator's actor, as `config.evaluation.policy` says.

    Without this field, the actions are greedy.
    """
    random = None
    if fields.get(config, "evaluation.policy") == "sampled":
      random = np.random.default_rng(seeds.for_evaluating_actor(config.seed))
    return PolicyActor(self.make_network(config, spec), random)
