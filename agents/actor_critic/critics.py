"""Critics: values of observations and actions, with their target networks."""

import math
import typing
from collections.abc import Callable

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import optimizer, policies, targets
from slipway.agents.losses import actor_critic as losses
from slipway.agents.losses import categorical, offline, output
from slipway.agents.networks import (
  critic_network,
  encoder_network,
  heads,
  initializers,
  layers,
  recurrent,
  tf_network,
)
from slipway.environments import arrays

# Declaration of the network of features; see `Critics`.
Encoder = encoder_network.EncoderNetwork | encoder_network.RecurrentEncoder

# Returns N actions [N, B, A] for features [B, ...], and log-densities [N, B].
Propose = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

# Returns the losses of the critics' outputs [B, C, K].
LossFunction = Callable[[tf.Tensor], output.LossOutput]


class CriticInputs(typing.NamedTuple):
  """B steps from which critics learn, with their targets.

  Attributes:
    encode: returns the features of the observations before the steps, [B,
      ...], with gradients for the encoder; see `Critics`.
    action: actions of the steps, [B, ...].
    loss: loss of the critics' outputs for these, which has the targets.
    weights: factors of the losses, such as importance weights, [B].
  """

  encode: Callable[[], tf.Tensor]
  action: tf.Tensor
  loss: LossFunction
  weights: tf.Tensor


class CriticUpdate(typing.NamedTuple):
  """Result of `Critics.update` for B steps.

  Attributes:
    td_error: error of each step before the update, [B].
    features: results of `CriticInputs.encode` before the update, [B, ...].
    metrics: scalars by name.
  """

  td_error: tf.Tensor
  features: tf.Tensor
  metrics: dict[str, tf.Tensor]


class Critics:
  """C critics, with one optimizer for all, and a target network for each.

  If there is an encoder, it computes the features of all critics and of the
  policy, and only the critics' loss trains it: Kostrikov et al. 2021, "Image
  augmentation is all you need" (https://arxiv.org/abs/2004.13649), appendix B.
  Otherwise the features are the observations themselves.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    encoder: Encoder | None = None,
  ):
    """Makes critics, encoder and targets, with equal variables.

    Args:
      encoder: declaration of the encoder, or None if the features are the
        observations.
    """
    self._declared_encoder = encoder
    network = config.network
    self._learner = config.learner.copy_and_resolve_references()
    self._count = network.critics
    self._atoms: tf.Tensor | None = None
    self._taus: np.ndarray | None = None  # fractions of quantiles
    if network.critic_head == "quantile":
      self._taus = heads.make_midpoints(network.critic_quantiles)
    if network.critic_head == "categorical":
      self._atoms = tf.constant(heads.make_atoms(network))
      self._scale = categorical.make_scale(heads.has_support(network))
    self._encoder = self._target_encoder = None
    if encoder is not None:
      # Its variables have the names that they have in the acting policy.
      self._encoder, self._target_encoder = (
        tf_network.Network(encoder, config.seed, policies.POLICY)
        for _ in range(2)
      )
    declaration = self._declare(network, spec)
    self._online, self._target = (
      tf_network.Network(declaration, config.seed, "critics") for _ in range(2)
    )
    self._optimizer = optimizer.Optimizer(
      _join_variables(self._encoder, self._online),
      optimizer.Settings.from_config(self._learner),
      "critics",
    )

  @property
  def is_recurrent(self) -> bool:
    """Whether features depend on earlier observations."""
    return isinstance(self._declared_encoder, encoder_network.RecurrentEncoder)

  def encode(self, observation: tf.Tensor) -> tf.Tensor:
    """Returns the features [B, ...] of observations [B, ...]."""
    return observation if self._encoder is None else self._encoder(observation)

  def encode_for_targets(self, observation: tf.Tensor) -> tf.Tensor:
    """Returns features [B, ...] by the encoder's moving average."""
    if self._target_encoder is None:
      return observation
    return self._target_encoder(observation)

  def unroll(
    self,
    inputs: recurrent.Inputs,
    state: tf.Tensor,
    by_target: bool = False,
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns features [B, T, F] of T steps, and the memory [B, S] after them.

    Args:
      inputs: inputs of a recurrent encoder, [B, T, ...] each.
      state: its memory before the steps, [B, S].
      by_target: whether the encoder's moving average computes them.
    """
    network = self._target_encoder if by_target else self._encoder
    encoder = self._declared_encoder
    assert isinstance(encoder, encoder_network.RecurrentEncoder) and network
    return encoder.unroll(network.layers, inputs, state)

  def update(
    self, inputs: CriticInputs, rate: tf.Tensor, propose: Propose
  ) -> CriticUpdate:
    """Takes a gradient step.

    Args:
      propose: function that samples actions for `learner.cql_weight`.
    """
    with tf.GradientTape() as tape:
      features = inputs.encode()
      outputs = self._evaluate(features, inputs.action)
      found = inputs.loss(outputs)
      each = found.loss
      if self._learner.cql_weight:
        penalty = self._compute_conservative(features, outputs, propose)
        each += self._learner.cql_weight * penalty
      loss = tf.reduce_mean(inputs.weights * each)
    norm = self._optimizer.minimize(loss, tape, rate)
    metrics = {
      "critic_loss": loss,
      "q_mean": tf.reduce_mean(self._compute_values(outputs)),
      "td_error_abs_mean": tf.reduce_mean(tf.abs(found.td_error)),
      "gradient_norm": norm,
    }
    if found.outside_support is not None:
      metrics.update(found.outside_support.metrics())
    return CriticUpdate(found.td_error, features, metrics)

  def make_transition_loss(
    self,
    r_t: tf.Tensor,
    discount_t: tf.Tensor,
    features_t: tf.Tensor,
    next_action: tf.Tensor,
    entropy_cost: tf.Tensor | None,
    seed: tf.Tensor,
  ) -> LossFunction:
    """Returns the loss of n-step transitions, with the targets' bootstrap.

    Args:
      r_t: discounted sums of the rewards of n steps, [B].
      discount_t: factors of the bootstrap, [B].
      features_t: results of `encode_for_targets` for o_t, [B, ...].
      next_action: N actions for each o_t, [N, B, A].
      entropy_cost: alpha log pi of these actions, [B], or None.
      seed: int32 [2], seed of the choice of `target_critics`.
    """
    outputs_t = self._bootstrap(features_t, next_action, seed)
    atoms = self._atoms
    if atoms is not None:
      return lambda outputs: losses.categorical_critic_loss(
        outputs,
        r_t,
        discount_t,
        outputs_t,
        atoms,
        entropy_cost,
        self._scale,
      )
    if self._taus is not None:
      taus = tf.constant(self._taus)
      return lambda outputs: losses.truncated_quantile_loss(
        outputs,
        taus,
        r_t,
        discount_t,
        outputs_t,
        self._learner.dropped_quantiles,
        entropy_cost,
      )
    return make_squared_loss(
      losses.soft_target(r_t, discount_t, outputs_t[:, :, 0], entropy_cost)
    )

  def compute_target_values(
    self, features: tf.Tensor, action: tf.Tensor, seed: tf.Tensor
  ) -> tf.Tensor:
    """Returns the lowest values [B] of the target critics.

    Each critic's value is its mean over the N actions.

    Args:
      features: results of `encode_for_targets`, [B, ...].
      action: N actions for each observation, [N, B, A].
      seed: int32 [2], seed of the choice of `target_critics`.
    """
    outputs = self._bootstrap(features, action, seed)
    return tf.reduce_min(self._compute_values(outputs), axis=1)

  def compute_each_target_value(
    self, features: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor:
    """Returns the values [N, B, C] of N actions by all target critics.

    Arguments are those of `compute_target_values`.
    """
    found = self._compute_values(
      self._target(*flatten_samples(features, action))
    )
    return tf.reshape(found, [action.shape[0], -1, self._count])

  def policy_value(self, features: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns the values [B] that the policy maximises.

    They are those of `learner.policy_value`.

    Args:
      features: features of B observations, [B, ...].
      action: one action for each observation, [B, A].
    """
    return self._combine(self._online, features, action)

  def target_policy_value(
    self, features: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor:
    """Returns the values [B] of `policy_value`, by the target critics."""
    return self._combine(self._target, features, action)

  def compute_dead_units(
    self, features: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor:
    """Returns the part [] of the critics' ReLUs that give 0 for B actions."""
    return self._online.compute_dead_units(features, action)

  def follow(self) -> None:
    """Moves the target networks towards the critics and their encoder."""
    targets.soft_update(
      _join_variables(self._target_encoder, self._target),
      _join_variables(self._encoder, self._online),
      self._learner.tau,
    )

  def get_policy_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of variables that the acting policy has, too, by name.

    They are the encoder's, and those of the first critic, by which BCQ chooses.
    """
    found = {} if self._encoder is None else self._encoder.get_variables()
    if self._learner.policy_loss == "batch_constrained":
      for name, variable in self._online.get_variables().items():
        name = name.removeprefix("critics/")
        if name.startswith("critic_0/"):
          found[f"{policies.POLICY}/{name}"] = variable
    return found

  @property
  def checkpointed(self) -> dict[str, typing.Any]:
    encoders = {}
    if self._encoder is not None:
      encoders = {
        "encoder": self._encoder,
        "target_encoder": self._target_encoder,
      }
    return {
      **encoders,
      "critics": self._online,
      "target_critics": self._target,
      "critic_optimizer": self._optimizer,
    }

  def _declare(
    self, network: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> critic_network.CriticNetwork:
    settings, outputs = make_settings(network), 1
    if self._taus is not None:
      outputs = len(self._taus)
    if self._atoms is not None:
      atoms = self._atoms.numpy()
      outputs, values = len(atoms), initializers.returns_at_zero(atoms)
      scheme = settings.scheme._replace(values=values)
      settings = settings._replace(scheme=scheme)
    return critic_network.CriticNetwork(spec, settings, self._count, outputs)

  def _compute_conservative(
    self, features: tf.Tensor, outputs: tf.Tensor, propose: Propose
  ) -> tf.Tensor:
    """Returns the penalties [B] by which CQL lowers values of new actions."""
    action, log_density = propose(tf.stop_gradient(features))
    found = self._online(*flatten_samples(features, action))
    shape = (*log_density.shape[:1], -1, self._count)
    return offline.conservative(
      self._compute_values(outputs),
      tf.reshape(self._compute_values(found), shape),
      log_density,
    )

  def _evaluate(self, features: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns the critics' outputs [B, C, K] for a batch's actions."""
    return self._online(features, action)

  def _bootstrap(
    self, features: tf.Tensor, action: tf.Tensor, seed: tf.Tensor
  ) -> tf.Tensor:
    """Returns the outputs [B, M, K] of M target critics."""
    return self._choose(self._expect(features, action), seed)

  def _combine(
    self, network: tf_network.Network, features: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor:
    """Returns the values [B] of C critics for the policy."""
    return self._choose_value(self._compute_values(network(features, action)))

  def _choose_value(self, values: tf.Tensor) -> tf.Tensor:
    """Returns the values [B, ...] for the policy, of C critics' [B, C, ...]."""
    if self._learner.policy_value == "first":
      return values[:, 0]
    if self._learner.policy_value == "mean":
      return tf.reduce_mean(values, axis=1)
    return tf.reduce_min(values, axis=1)

  def _compute_values(self, outputs: tf.Tensor) -> tf.Tensor:
    """Returns the values [B, C] of outputs [B, C, K]."""
    if self._atoms is None:  # the value, or quantiles, whose mean it is
      return tf.reduce_mean(outputs, axis=-1)
    return tf.reduce_sum(tf.nn.softmax(outputs) * self._atoms, -1)

  def _expect(self, features: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns the target critics' outputs, averaged over actions, [B, C, K]."""
    samples: typing.Any = action.shape[0]
    if samples == 1:
      return self._target(features, action[0])
    outputs = self._target(*flatten_samples(features, action))
    outputs = tf.reshape(outputs, [samples, -1, *outputs.shape[1:]])
    if self._atoms is None:
      return tf.reduce_mean(outputs, axis=0)
    log_p = tf.reduce_logsumexp(tf.nn.log_softmax(outputs), axis=0)
    return log_p - math.log(samples)

  def _choose(self, outputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns the outputs [B, M, K] of M random critics, of [B, C, K]."""
    chosen = self._learner.target_critics
    if not chosen or chosen == self._count:
      return outputs
    order = tf.argsort(tf.random.stateless_uniform([self._count], seed))
    return tf.gather(outputs, order[:chosen], axis=1)


class DiscreteCritics(Critics):
  """Critics of A discrete actions, of which policies give probabilities.

  So expectations over actions are exact: Christodoulou 2019, "Soft actor-critic
  for discrete action settings" (https://arxiv.org/abs/1910.07207), section 3.
  In place of actions, methods take probabilities: `make_transition_loss` takes
  those of o_t, [1, B, A], with the expectation of alpha log pi as their entropy
  cost, and `policy_value` those of its observations, [B, A]; of a taken action,
  1 at its number.
  """

  def compute_dead_units(
    self, features: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor:
    """Returns the part [] of the critics' ReLUs that give 0 for B features."""
    del action
    return self._online.compute_dead_units(features)

  def _declare(
    self, network: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> critic_network.CriticNetwork:
    actions = typing.cast(specs.DiscreteArray, spec.actions).num_values
    return critic_network.StateCriticNetwork(
      spec, make_settings(network), self._count, actions
    )

  def _combine(
    self, network: tf_network.Network, features: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor:
    """Returns the expected values [B] for probabilities [B, A] of actions."""
    values = self._choose_value(network(features))
    return tf.reduce_sum(action * values, axis=-1)

  def _evaluate(self, features: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns the critics' values [B, C, 1] of actions int [B]."""
    values = self._online(features)
    chosen = tf.one_hot(action, values.shape[-1])[:, None]
    return tf.reduce_sum(values * chosen, axis=-1, keepdims=True)

  def _bootstrap(
    self, features: tf.Tensor, action: tf.Tensor, seed: tf.Tensor
  ) -> tf.Tensor:
    """Returns sum_a pi(a) min_c q_c(a), [B, 1, 1]: equation 3 of the paper."""
    values = self._choose(self._target(features), seed)
    lowest = tf.reduce_min(values, axis=1)
    return tf.reduce_sum(action[0] * lowest, axis=-1)[:, None, None]


def make_critics(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  encoder: Encoder | None,
) -> Critics:
  """Makes the critics for an environment's kind of actions."""
  is_discrete = arrays.component_sizes(spec.actions) is not None
  return (DiscreteCritics if is_discrete else Critics)(config, spec, encoder)


def make_settings(network: ml_collections.ConfigDict) -> layers.TorsoSettings:
  """Returns the settings of the critics' layers, those after a memory."""
  settings = layers.TorsoSettings.from_config(network)
  if network.core_size:
    settings = settings._replace(sizes=settings.sizes[-1:])
  return settings


def make_squared_loss(target: tf.Tensor) -> LossFunction:
  """Returns the loss of 'expected' critics for targets [B]."""
  return lambda outputs: losses.critic_loss(outputs[:, :, 0], target)


def flatten_samples(
  features: tf.Tensor, action: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Pairs each of N actions with its observation, in one batch of N * B.

  Args:
    features: features of B observations, [B, ...].
    action: N actions for each observation, [N, B, A].

  Returns:
    The features [N * B, ...] and the actions [N * B, A].
  """
  repeats: typing.Any = [action.shape[0]] + [1] * (len(features.shape) - 1)
  return (
    tf.tile(features, repeats),
    tf.reshape(action, [-1, action.shape[-1]]),
  )


def _join_variables(
  encoder: tf_network.Network | None, critics: tf_network.Network
) -> list[tf.Variable]:
  shared = () if encoder is None else encoder.trainable_variables
  return [*shared, *critics.trainable_variables]
