"""A trained policy: `slipway.load`, to act in a loop of one's own."""

import os
import typing
from collections.abc import Mapping

import ml_collections
import numpy as np

from slipway.agents import core, registry
from slipway.agents.networks import network as network_lib
from slipway.environments import conversion, factory
from slipway.launch import run_config
from slipway.launch.runs import best_variables, run_folder


def load(run: str | os.PathLike[str]) -> "Policy":
  """Returns the policy of a run's best evaluation.

      policy = slipway.load("runs/first")
      observation, _ = environment.reset()
      policy.reset()
      while not done:
        action = policy(observation)
        observation, reward, terminated, truncated, _ = environment.step(action)
        done = terminated or truncated

  Args:
    run: folder of the run.

  Raises:
    ValueError: one line: there is no such run, it has not been evaluated yet,
      or its files do not belong together.
  """
  folder = run_folder.RunFolder.open(run)
  version, variables = best_variables.load(folder.best)
  config = run_config.read(folder.path)
  return Policy(config, variables, version)


class Policy:
  """Greedy actions of a trained network.

  Small networks act in NumPy; TensorFlow is imported for convolutions alone.

  Attributes:
    config: of the run.
    version: of the variables.
    observation_space: of one environment, in gymnasium's terms.
    action_space: the same for actions.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    variables: Mapping[str, np.ndarray],
    version: int,
  ):
    """Makes the policy of a learner's variables.

    Args:
      config: of the run.
      variables: by name.
      version: of the variables.

    Raises:
      ValueError: one line: the variables are not those of the config's network.
    """
    self.config, self.version = config, version
    environment = factory.make(config.environment, num_envs=1, seed=0)
    environment.close()  # its spaces and conversions remain
    self._environment = environment
    self.observation_space = environment.observation_space
    self.action_space = environment.action_space
    self._spec = environment.spec
    builder = registry.make_builder(config.agent)
    self._declaration = builder.make_network(config, self._spec)
    self._variables = _select(self._declaration, variables)
    self.actor: core.Actor = builder.make_greedy_actor(config, self._spec)
    self.actor.load(variables)
    self._first = True

  def __call__(
    self, observation: typing.Any, reward: typing.Any = 0.0
  ) -> typing.Any:
    """Returns the action for an observation, or actions for a batch of them.

    Args:
      observation: of the environment's observation space, or [B, ...].
      reward: of the step that led to it, or [B]; only recurrent networks use
        it.

    Returns:
      An action of the environment's action space, or [B, ...].

    Raises:
      ValueError: one line: the observation has another shape.
    """
    shape = self.observation_space.shape or ()
    array = np.asarray(observation)
    single = array.shape == shape
    if not single and array.shape[1:] != shape:
      raise ValueError(
        f"observation has shape {list(array.shape)}, so there is no action for "
        f"it: give one of shape {list(shape)}, or a batch {['B', *shape]}"
      )
    batch = array[None] if single else array
    output = self.actor.act(
      self._environment.read_observations(batch),
      np.broadcast_to(np.asarray(reward, np.float32), len(batch)),
      np.full(len(batch), self._first),
    )
    self._first = False
    actions = self._environment.write_actions(output.action)
    return actions[0] if single else actions

  def reset(self) -> None:
    """Begins new episodes: a recurrent network forgets what it has seen."""
    self._first = True

  def export(self, path: str | os.PathLike[str]) -> None:
    """Writes the policy as an ONNX model, for onnxruntime and others.

    The input `observation` [batch, ...] and the output `action` [batch, ...]
    are in the environment's terms where these are arrays of numbers: actions
    count from the space's first one, or lie within its bounds. A recurrent
    network has the further inputs `action_before`, `reward_before`, `first` and
    `state`, and the output `next_state`.

    Args:
      path: of the file, which is replaced.

    Raises:
      ValueError: one line: the package onnx is not installed.
    """
    try:
      from slipway.agents.networks import onnx_ops

      graph, outputs = onnx_ops.trace(self._declaration, self._variables)
    except ImportError as error:
      raise ValueError(
        f"the policy can't be exported ({error}): install the package, "
        "`pip install --no-deps onnx==1.17.0`"
      ) from error
    named = dict(self._declaration.greedy(graph, outputs))
    named["action"] = conversion.write_actions_with(
      graph, self.action_space, named["action"]
    )
    graph.write(
      os.fspath(path),
      named,
      {
        "agent": str(self.config.agent),
        "environment": str(self.config.environment.name),
        "version": str(self.version),
      },
    )


def _select(
  declaration: network_lib.Declaration, variables: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
  """Returns the variables of the network that acts, by their own names.

  A learner of several networks names the acting one before its variables.
  """
  selected = {}
  for name, shape in network_lib.variable_shapes(declaration).items():
    for key, value in variables.items():
      if value.shape == shape and (key == name or key.endswith(f"/{name}")):
        selected[name] = value
        break
    else:
      raise ValueError(
        f"the variables have no {name!r} of shape {list(shape)}, which the "
        "network of the config needs, so the run can't be played: restore "
        "config.json and best.npz of one run"
      )
  return selected
