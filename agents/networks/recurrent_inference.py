"""Q-values of recurrent networks for acting; see `inference`."""

import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
from acme import specs

from agents.networks import numpy_layers


class RecurrentInference(typing.Protocol):
  """Values by what was seen of episodes, one step at a time."""

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Takes over a learner's variables."""
    ...

  def __call__(
    self,
    observation: np.ndarray,
    action_before: np.ndarray,
    reward_before: np.ndarray,
    first: np.ndarray,
    state: np.ndarray,
  ) -> tuple[np.ndarray, np.ndarray]:
    """Values float32 [B, A] of one step, and the state after it [B, S].

    Args:
      observation: [B, ...].
      action_before: [B] int32.
      reward_before: [B] float32.
      first: [B] bool: nothing came before.
      state: float32 [B, S], before it.
    """
    ...


def make_recurrent_inference(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> RecurrentInference:
  """The fastest way to act with this network.

  Args:
    config: the `network` part of a config.
    spec: of an environment with discrete actions.
  """
  if config.torso in numpy_layers.TORSOS:
    return _NumPyInference(config, spec.actions.num_values)
  return _GraphInference(config, spec)


def state_size(config: ml_collections.ConfigDict) -> int:
  """S = 2 H: what the LSTM gives out, and its cell."""
  return 2 * config.lstm_size


class _NumPyInference:
  """A small network, in NumPy; see `recurrent.RecurrentQNetwork`."""

  def __init__(self, config: ml_collections.ConfigDict, num_actions: int):
    *torso_sizes, _ = config.hidden_sizes
    self._torso = numpy_layers.Torso(config.torso, tuple(torso_sizes))
    self._dueling = config.dueling
    self._one_hot = np.eye(num_actions, dtype=np.float32)
    self._variables: Mapping[str, np.ndarray] = {}

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    self._variables = variables

  def __call__(
    self,
    observation: np.ndarray,
    action_before: np.ndarray,
    reward_before: np.ndarray,
    first: np.ndarray,
    state: np.ndarray,
  ) -> tuple[np.ndarray, np.ndarray]:
    going = (~first)[:, None].astype(np.float32)
    h, c = np.split(state * going, 2, axis=1)
    x = np.concatenate(
      [
        self._torso(self._variables, observation),
        self._one_hot[action_before] * going,
        reward_before[:, None] * going,
        h,
      ],
      axis=1,
    )
    gates = numpy_layers.linear(self._variables, "gates", x)
    i, f, g, o = np.split(gates, 4, axis=1)
    c = _sigmoid(f + 1.0) * c + _sigmoid(i) * np.tanh(g)
    h = _sigmoid(o) * np.tanh(c)
    return self._head(h), np.concatenate([h, c], axis=1)

  def _head(self, hidden: np.ndarray) -> np.ndarray:
    advantage = self._stream("advantage", hidden)
    if not self._dueling:
      return advantage
    mean = advantage.mean(axis=1, keepdims=True)
    return self._stream("value", hidden) + advantage - mean

  def _stream(self, name: str, x: np.ndarray) -> np.ndarray:
    hidden = numpy_layers.linear(self._variables, f"{name}/hidden", x)
    return numpy_layers.linear(
      self._variables, f"{name}/output", numpy_layers.relu(hidden)
    )


class _GraphInference:
  """Any recurrent Q-network, as one graph."""

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    # Heavy, and not needed for small networks.
    import tensorflow as tf

    from agents.networks import q_network, recurrent

    self._network = recurrent.make_recurrent_q_network(config, spec)
    self._names = list(q_network.get_variables(self._network))
    self._tensor: Callable = tf.constant

    def step(observation, action_before, reward_before, first, state):
      inputs = (observation, action_before, reward_before, first)
      values, after = self._network.unroll(
        recurrent.Inputs(*(x[:, None] for x in inputs)), state
      )
      return values[:, 0], after

    observations = spec.observations
    # Traced once and called as such; see `inference`.
    self._step: Callable = tf.function(
      step, autograph=False
    ).get_concrete_function(
      tf.TensorSpec((None, *observations.shape), observations.dtype),
      tf.TensorSpec((None,), tf.int32),
      tf.TensorSpec((None,), tf.float32),
      tf.TensorSpec((None,), tf.bool),
      tf.TensorSpec((None, state_size(config)), tf.float32),
    )

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    for name, variable in zip(
      self._names, self._network.variables, strict=True
    ):
      variable.assign(variables[name])

  def __call__(
    self,
    observation: np.ndarray,
    action_before: np.ndarray,
    reward_before: np.ndarray,
    first: np.ndarray,
    state: np.ndarray,
  ) -> tuple[np.ndarray, np.ndarray]:
    values, after = self._step(
      self._tensor(observation),
      self._tensor(action_before),
      self._tensor(reward_before),
      self._tensor(first),
      self._tensor(state),
    )
    return values.numpy(), after.numpy()


def _sigmoid(x: np.ndarray) -> np.ndarray:
  return 0.5 * (np.tanh(0.5 * x) + 1.0)
