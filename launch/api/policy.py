"""Policy: loads the trained policy of a run, for use in a user's own loop."""

import json
import os
import pathlib
import typing
from collections.abc import Iterable, Mapping

import ml_collections
import numpy as np
from absl import logging

from slipway.agents import core, policies, registry
from slipway.agents.networks import network as network_lib
from slipway.configs import base, fields
from slipway.environments import (
  arrays,
  checked,
  conversion,
  factory,
  inputs,
  spaces,
  specs,
  vector,
)
from slipway.launch.checks import overrides, run_config
from slipway.launch.runs import (
  best_variables,
  manifest,
  recorded_spaces,
  run_counters,
  run_folder,
  snapshot_store,
)


def load(
  run: str | os.PathLike[str],
  which: str | int = "best",
  trust: bool = False,
  policy: str | None = None,
) -> "Policy":
  """Loads the trained policy of a run.

      policy = slipway.load("runs/first")
      environment = policy.make_environment()
      observation, _ = environment.reset()
      policy.reset()
      reward, done = 0.0, False
      while not done:
        action = policy(observation, reward)
        observation, reward, terminated, truncated, _ = environment.step(action)
        done = terminated or truncated

  Args:
    run: the run's folder, such as 'runs/first'.
    which: 'best' for the variables of the best evaluation, 'latest' for those
      of the newest snapshot, or a snapshot's number.
    trust: whether to load a run of another user, or in a folder to which any
      user can write. Modules that its files name are imported, and so run.
    policy: 'greedy' for the most probable actions, 'sampled' for actions that
      are sampled as in training, or None for the config's
      `evaluation.policy`.

  Raises:
    ValueError: there is no such run or snapshot, the run has not been
      evaluated yet, its files do not belong together, the environment has
      other spaces than when the run was made, the run is not trusted, or its
      algorithm has no such policy.
  """
  folder = run_folder.RunFolder.open(run, trust)
  config = run_config.read(folder.path, trust)
  snapshot: pathlib.Path | None = None
  if which == "best":
    if config.environment.external:
      raise ValueError(
        f"run {str(folder.path)!r} has {base.show_missing_environment(config)}"
        ", so it is never evaluated and has no best variables: load its newest "
        "snapshot, which='latest'"
      )
    path = folder.best
    version, variables = best_variables.load(path)
  else:
    path = snapshot = _find_snapshot(folder, config, str(which))
    version, variables = 0, {}
  environment = factory.make(config.environment, num_envs=1, seed=0)
  environment.close()
  recorded_spaces.check(folder, environment.name, environment.spec)
  if policy is not None:
    set_policy(config, environment.spec, policy)
  if snapshot is not None:
    version, variables = _load_snapshot(snapshot, config, environment.spec)
  return Policy(config, variables, version, repr(str(path)), environment)


def set_policy(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec, policy: str
) -> None:
  """Sets how a loaded policy acts, if the run's algorithm knows the choice.

  Args:
    config: the run's config, which is changed.
    policy: 'greedy' or 'sampled'; see `load`.

  Raises:
    ValueError: the algorithm has no such policy.
  """
  if fields.get(config, "evaluation.policy") is None:
    if policy != "greedy":
      raise ValueError(
        f"policy={policy} is for policies that are distributions, and the "
        f"actions of {config.agent} are greedy only: leave it out"
      )
    return
  config.evaluation.policy = policy
  fields.validate(config, overrides.declared_fields(config))
  registry.make_builder(config.agent).check(config, spec)


class Policy:
  """A trained policy, which returns the actions of evaluations.

  A part of them is random where `config.exploration.evaluation_epsilon` is
  above 0.

  `load` makes it. Small networks are computed by NumPy; TensorFlow is imported
  only for convolutions.

  Attributes:
    config: the run's config.
    version: version of the policy's variables.
    observation_space: gymnasium space of one environment's observations.
    action_space: gymnasium space of one environment's actions.
    spec: spec of one environment, in the actor's terms.
    is_recurrent: whether actions depend on the observations before.
    actor: the algorithm's actor of evaluations, with the policy's variables.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    variables: Mapping[str, np.ndarray],
    version: int,
    source: str = "variables",
    environment: vector.VectorEnvironment | None = None,
  ):
    """Makes a policy from a learner's variables.

    Args:
      config: the run's config.
      variables: the learner's variables, by name.
      version: version of the variables.
      source: description of the variables' origin, for error messages.
      environment: closed environment of the config, whose spaces and
        conversions are used, or None to make one.

    Raises:
      ValueError: the variables are not those of the config's network.
    """
    self.config, self.version = config, version
    if environment is None:
      environment = factory.make(config.environment, num_envs=1, seed=0)
      environment.close()
    self._environment = environment
    self.observation_space = environment.observation_space
    self.action_space = environment.action_space
    self.spec = environment.spec
    # Wrappers change observations; those of the bare environment would be
    # taken for theirs.
    self._wrappers = tuple(config.environment.wrappers)
    self._must_warn = bool(self._wrappers)
    self._inputs = inputs.InputReader(
      self.observation_space, self.action_space, bounded=bool(self._wrappers)
    )
    builder = registry.make_builder(config.agent)
    self._declaration = builder.make_network(config, self.spec)
    self.is_recurrent = len(self._declaration.inputs) > 1
    self._variables, self._source = variables, source
    self._prefixes = _find_prefixes(self._declaration, variables, source)
    self.actor: core.Actor = builder.make_greedy_actor(config, self.spec)
    self.actor.load(variables)
    self._begins_episode, self._batch_size = True, 0

  def __reduce__(self):
    """Copies and pickles the policy, as before an episode's first step."""
    return Policy, (self.config, self._variables, self.version, self._source)

  def __call__(
    self,
    observation: typing.Any,
    reward: typing.Any = 0.0,
    action_mask: typing.Any = None,
  ) -> typing.Any:
    """Returns the action for an observation, or actions for a batch of them.

    Args:
      observation: an element of the observation space, or a batch of them
        [B, ...]. If the config has wrappers, it is what they return, as the
        environments of `make_environment` do.
      reward: the environment's reward of the step before the observation, or
        rewards [B]; only recurrent networks use it.
      action_mask: mask [M], or masks [B, M], with ones for the legal ones of M
        actions, or a tuple of the masks of an action's components, as
        environments return them; required if `config.environment.action_mask`
        is set.

    Returns:
      An element of the action space, or a batch of them [B, ...].

    Raises:
      ValueError: the observation has another shape or type, or is not in the
        space; the reward is no number; the mask is missing, has another shape
        or allows no action; there is a mask, and the policy was trained without
        masks; or a recurrent network gets a batch of another size than in the
        call before, without `reset`.
    """
    if self._must_warn:
      self._must_warn = False
      logging.warning(
        "the policy expects observations from config.environment.wrappers=%r: "
        "step the environment of policy.make_environment()",
        self._wrappers,
      )
    is_single, batch = self._inputs.read_observation(observation)
    try:
      observations = self._environment.convert_observations_to_spec(batch)
    except checked.EnvironmentFault as fault:
      raise ValueError(f"{fault}, so there is no action for it") from fault
    expected = self._environment.spec.observations
    inputs.check_size(observations)
    if isinstance(expected, arrays.MaskedArray):
      if action_mask is None:
        raise ValueError(
          "action_mask is None, but the policy was trained with action masks, "
          "so illegal actions could follow: pass the environment's mask as "
          "action_mask=info['action_mask']"
        )
      legal = self._inputs.read_masks(action_mask, len(observations))
      observations = expected.join(observations, legal)
    elif action_mask is not None:
      raise ValueError(
        "action_mask is given, but the policy was trained without action masks "
        "(config.environment.action_mask=False), so the mask would have no "
        "effect: leave it out, or train with masks"
      )
    rewards = _read_rewards(reward, len(observations))
    self._check_batch_size(len(observations))
    output = self.actor.act(
      observations,
      self._environment.convert_rewards_to_spec(rewards),
      np.full(len(observations), self._begins_episode),
    )
    self._begins_episode, self._batch_size = False, len(observations)
    actions = self._environment.convert_actions_to_space(output.action)
    return actions[0] if is_single else actions

  def _check_batch_size(self, size: int) -> None:
    """Raises ValueError if a recurrent network would lose its state."""
    if (
      self.is_recurrent
      and not self._begins_episode
      and size != self._batch_size
    ):
      raise ValueError(
        f"the policy got {size} observations, and {self._batch_size} in the "
        "call before, but its recurrent network has one state per observation "
        "of a batch, so there is no action: call reset() where all episodes "
        "begin, and use a copy.copy(policy) for other episodes"
      )

  def make_environment(self, **kwargs: typing.Any) -> factory.Environment:
    """Makes an environment whose observations and actions are the policy's.

    It is that of evaluations: the config's, with its wrappers, frame stack and
    time limit, and what `evaluation.environment` changes.

    Args:
      **kwargs: further keyword arguments of its constructor, such as
        `render_mode="human"`.

    Raises:
      ValueError: it is stepped in batches only, as Atari games are, or can't be
        made.
      UserCodeError: the environment's own code failed.
    """
    evaluated = base.get_evaluation_environment(self.config)
    environment = factory.make_single(evaluated, kwargs)
    self._must_warn = False
    return environment

  def reset(self) -> None:
    """Resets a recurrent network's state; to be called before each episode."""
    self._begins_episode = True

  def export(self, path: str | os.PathLike[str]) -> None:
    """Writes the policy as an ONNX model, for onnxruntime and others.

    The input `observation` [batch, ...] and the output `action` [batch, ...]
    are in the environment's terms where these are arrays of numbers: actions
    count from the space's first one, or lie within its bounds. Observations of
    several parts, and those with action masks, are one flat vector: its
    metadata `observation` is a JSON list with the key, start and stop of each
    part, `spaces.describe_layout`.

    The model of a recurrent network is called once per step, with these inputs
    besides:

    - `action_before`: the output `next_action_before` of the call before. It is
      `action` in the agent's terms: counted from 0, scaled to [-1, 1] and not
      clipped, or the number of a joint action.
    - `state`: the output `next_state` of the call before.
    - `reward_before` [batch]: the reward of the step before, as agents receive
      it: after `environment.reward_scale` and `environment.reward_clip`.
    - `first` [batch]: whether the observation begins an episode. If so, the
      three inputs above are ignored, and may be zeros.

    Args:
      path: path of the file to write; an existing file is replaced.

    Raises:
      ValueError: onnx or tf2onnx is not installed, or it is not known which of
        the learner's networks is the policy.
    """
    variables = self._select_variables()
    expected = self.spec.observations
    mask_size = 0
    if isinstance(expected, arrays.MaskedArray):
      mask_size = expected.mask_size
    notes = {
      "agent": str(self.config.agent),
      "environment": str(self.config.environment.name),
      "version": str(self.version),
      "observation": json.dumps(
        spaces.describe_layout(self.observation_space, mask_size)
      ),
    }
    try:
      from slipway.agents.networks import onnx_export

      onnx_export.export(
        str(run_folder.expand(path)),
        self._declaration,
        variables,
        self._convert_outputs,
        notes,
      )
    except ImportError as error:
      raise ValueError(
        f"the policy can't be exported ({error}): install the package, "
        "`pip install --no-deps onnx==1.18.0 tf2onnx==1.17.0`"
      ) from error

  def _convert_outputs(
    self, ops: typing.Any, outputs: dict[str, typing.Any]
  ) -> dict[str, typing.Any]:
    """Returns an exported model's outputs, with actions of the space."""
    if "next_state" in outputs:  # a recurrent network
      outputs["next_action_before"] = outputs["action"]
    outputs["action"] = conversion.convert_actions_to_space_with(
      ops, self.action_space, outputs["action"]
    )
    return outputs

  def _select_variables(self) -> dict[str, np.ndarray]:
    """Returns the variables of the policy's network, without their prefix."""
    prefix, *others = self._prefixes
    own = f"{policies.POLICY}/"  # that of a PolicyActor's network
    if own in self._prefixes and isinstance(self.actor, policies.PolicyActor):
      prefix = own
    elif others:
      raise ValueError(
        f"{self._source} has variables of several networks that fit, with the "
        f"prefixes {', '.join(map(repr, self._prefixes))}, so it is not known "
        "which one to export: return only those of the policy from the "
        "learner's get_variables()"
      )
    return network_lib.select_variables(self._variables, prefix.rstrip("/"))


def _read_rewards(reward: typing.Any, batch_size: int) -> np.ndarray:
  """Returns the rewards float32 [B] of B observations."""
  try:
    rewards = np.broadcast_to(np.asarray(reward, np.float32), batch_size)
    if not np.isfinite(rewards).all():  # None becomes nan
      raise ValueError("not finite")
    return rewards
  except (TypeError, ValueError) as error:
    raise ValueError(
      f"reward is {' '.join(repr(reward).split()):.80}, neither a number nor "
      f"{batch_size} numbers, one per observation, so there is no action: give "
      "the environment's reward"
    ) from error


def _find_prefixes(
  declaration: network_lib.Declaration,
  variables: Mapping[str, np.ndarray],
  source: str,
) -> list[str]:
  """Returns the prefixes with which all variables of the declaration exist."""
  # A learner with several networks puts the network's name and a slash before
  # each variable's name.
  shapes = network_lib.variable_shapes(declaration)
  missing = {}  # names of the variables that are missing, by prefix
  for prefix in ("", *_list_prefixes(variables)):
    missing[prefix] = [
      name
      for name, shape in shapes.items()
      if prefix + name not in variables
      or variables[prefix + name].shape != shape
    ]
  fitting = [prefix for prefix, names in missing.items() if not names]
  if not fitting:
    name = min(missing.values(), key=len)[0]
    raise ValueError(
      f"{source} has no variable {name!r} of shape {list(shapes[name])}, which "
      "the network of config.json needs, so it can't be played: restore the "
      "two files of one run"
    )
  return fitting


def _list_prefixes(names: Iterable[str]) -> dict[str, None]:
  """Returns all beginnings of names up to a slash, as the keys of a dict."""
  return {
    name[: i + 1]: None
    for name in names
    for i, letter in enumerate(name)
    if letter == "/"
  }


def _find_snapshot(
  folder: run_folder.RunFolder, config: ml_collections.ConfigDict, which: str
) -> pathlib.Path:
  """Returns the folder of the snapshot that a user has chosen."""
  if which == "latest":
    newest = snapshot_store.open_store(config, folder).newest()
    if newest is None:
      raise ValueError(
        f"--which=latest: {str(folder.path)!r} has no complete snapshot, so "
        "there is nothing to play: let the run write one"
      )
    return newest.path
  if not which.isdecimal():
    raise ValueError(
      f"--which={which} is neither best, latest nor a number, so it is not "
      "known what to play: give one of them"
    )
  path = folder.snapshots / which.zfill(6)
  try:
    manifest.check(path)
  except ValueError as error:
    numbers = sorted(int(p.name) for p in folder.snapshots.glob("[0-9]*"))
    known = ", ".join(map(str, numbers)) or "none"
    raise ValueError(
      f"--which={which}: {str(path)!r} is no complete snapshot ({error}), so "
      f"there is nothing to play: the run has {known}"
    ) from error
  return path


def _load_snapshot(
  path: pathlib.Path,
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
) -> tuple[int, Mapping[str, np.ndarray]]:
  """Loads the learner of a snapshot."""
  # Imported late: it loads TensorFlow, which the best variables do without.
  from slipway.launch.runs import checkpoints

  learner = registry.make_builder(config.agent).make_learner(config, spec)
  checkpoints.restore(path, learner)
  counters = run_counters.RunCounters.read(path)
  return counters.status.variables.version, learner.get_variables()
