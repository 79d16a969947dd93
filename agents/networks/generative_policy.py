"""The policy of BCQ: the best of the actions that a model of data generates."""

import typing

import numpy as np
from acme import specs

from slipway.agents.networks import (
  critic_network,
  distributions,
  normalization,
  policy_head,
)
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor

# Bounds of log standard deviations, and of latent variables where actions are
# generated: the code of Fujimoto et al. 2019 (https://github.com/sfujim/BCQ).
_LOWEST_LOG_STD, _HIGHEST_LOG_STD = -4.0, 15.0
_LARGEST_LATENT = 0.5


class GenerativePolicy:
  """Declaration of a variational autoencoder of actions, and their changes.

    g_i = decoder(o, z_i),  a_i = clip(g_i + phi tanh(xi(o, g_i)), -1, 1)
    pi(o) = argmax_{a_i} q(o, a_i),  i = 1 .. N

  Fujimoto et al. 2019, "Off-policy deep reinforcement learning without
  exploration" (https://arxiv.org/abs/1812.02900), algorithm 1.

  The N latent variables z_i are constants, so the policy is deterministic. A
  learner has no critic here, and samples its own ones.

  Attributes:
    head: head of the actions, whose distributions are deterministic.
    latents: number L of latent variables, twice that of action components.
  """

  needs_random, prefers_numpy = False, True

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    settings: layers_lib.TorsoSettings,
    perturbation: float,
    candidates: int = 0,
  ):
    """Declares the network.

    Args:
      perturbation: phi, the largest change of a generated action.
      candidates: N, for acting; 0: a learner's network, without a critic.
    """
    self.inputs = (spec.observations,)
    self.head = policy_head.PolicyHead(
      spec, distributions.DETERMINISTIC, settings.scheme
    )
    self.latents = 2 * self.head.size
    # Only critics have norms in all layers, as for other policies.
    norm = "none" if settings.layer_norm == "all" else settings.layer_norm
    self._settings = settings._replace(layer_norm=norm)
    self._critic = critic_network.CriticNetwork(spec, settings)
    self._perturbation = perturbation
    z = np.random.default_rng(0).normal(size=(candidates, self.latents))
    self._z = clip_latents(np, z).astype(np.float32)

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns actions [B, A]; a learner's network has no choice of them."""
    ops = layers.ops
    x = ops.float32(observation)
    if self._settings.normalized:
      x = normalization.normalize(layers, x, self.inputs[0])
    x = ops.flatten(x)
    count = ops.shape(x)[0]

    def repeat(value: np.ndarray) -> Array:
      return ops.broadcast_to(value, (count, len(value)))

    if not len(self._z):
      start = repeat(np.zeros(self.head.size, np.float32))
      mean, _ = self.encode(layers, x, start)
      return self.perturb(layers, x, self.decode(layers, x, mean))
    tiled = ops.concat([x] * len(self._z), axis=0)
    z = ops.concat([repeat(latent) for latent in self._z], axis=0)
    action = self.perturb(layers, tiled, self.decode(layers, tiled, z))
    shape = (len(self._z), -1)
    values = ops.reshape(self._critic(layers, tiled, action), shape)
    actions = ops.reshape(action, (*shape, self.head.size))
    best = ops.argmax(ops.swapaxes(values, 0, 1))  # [B]
    chosen = ops.swapaxes(ops.one_hot(best, len(self._z)), 0, 1)  # [N, B]
    return ops.sum(actions * chosen[:, :, None], 0)

  def encode(
    self, layers: layers_lib.Layers, x: Array, action: Array
  ) -> tuple[Array, Array]:
    """Returns means and log deviations [B, L] of the latents of actions."""
    output = self._compute(layers, "encoder", x, action, 2 * self.latents)
    mean, log_std = layers.ops.split(output, 2)
    return mean, layers.ops.clip(log_std, _LOWEST_LOG_STD, _HIGHEST_LOG_STD)

  def decode(self, layers: layers_lib.Layers, x: Array, z: Array) -> Array:
    """Returns the actions [B, A] of latent variables [B, L]."""
    size = self.head.size
    return layers.ops.tanh(self._compute(layers, "decoder", x, z, size))

  def perturb(
    self, layers: layers_lib.Layers, x: Array, action: Array
  ) -> Array:
    """Returns actions [B, A], changed by at most phi."""
    output = self._compute(layers, "perturbation", x, action, self.head.size)
    change = self._perturbation * layers.ops.tanh(output)
    return layers.ops.clip(action + change, -1.0, 1.0)

  def greedy(self, ops: typing.Any, outputs: Array) -> dict[str, Array]:
    """Returns the actions, {'action': [B, A]}."""
    del ops
    return {"action": outputs}

  def _compute(
    self, layers: layers_lib.Layers, name: str, x: Array, y: Array, size: int
  ) -> Array:
    """Returns the outputs [B, size] of one MLP of two inputs [B, ...]."""
    joined = layers.ops.concat([layers.ops.flatten(x), y])
    hidden = layers_lib.mlp(layers, name, joined, self._settings)
    scheme = self._settings.scheme
    return layers.linear(f"{name}/output", hidden, size, scheme.hidden)


def clip_latents(ops: typing.Any, z: Array) -> Array:
  """Returns latent variables that are probable in the data."""
  return ops.clip(z, -_LARGEST_LATENT, _LARGEST_LATENT)
