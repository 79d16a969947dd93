"""The command `slipway record`, which records episodes of a policy."""

import pathlib
import typing
from collections.abc import Callable, Sequence

import numpy as np

from slipway.agents import core
from slipway.configs import base, fields, groups
from slipway.environments import (
  arrays,
  conversion,
  spaces,
  user_code,
  vector,
)
from slipway.environments import recorder as recorder_lib
from slipway.launch.api import policy as policy_lib
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import overrides, run_config
from slipway.launch.commands import evaluate
from slipway.launch.nodes import evaluation
from slipway.replay.items import adder

# Sentence that begins the help.
_USAGE = (
  "Records the episodes that a policy plays, as Minari datasets. With "
  "--environment, --config.environment.FIELD=VALUE changes the environment as "
  "in `slipway train`."
)
_RANDOM = "random"


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> int:
  """Plays and records episodes, and prints statistics of their returns.

  Returns:
    Exit status: 0 if all episodes were recorded; 2 if the disk has rejected
    some.

  Raises:
    ValueError: a flag is invalid, or there is nothing to play.
    UserCodeError: the environment or the user's policy failed.
  """
  flags = define_flags()
  line = flags.parse_known(argv, _USAGE)
  changes = []
  if flags.environment:
    changes = overrides.find_changes_of_environment(line.others)
  flags.reject([x for x in line.others if x not in changes], argv[0])
  _check_flags(flags)
  if flags.run:
    evaluate.check_playable(flags.run, flags.trust)
    config = run_config.read(flags.run, flags.trust)
  else:
    config = overrides.load(overrides.GENERIC_CONFIGS[False])
    config.environment.name = flags.environment
    overrides.apply(config, changes)
    fields.validate(config, overrides.declared_fields(config))
  environment = evaluate.make_environment(flags, config)
  actor = _Actor(environment, flags.epsilon, flags.seed)
  name = f"policy {flags.policy}"
  if flags.policy in (None, *groups.POLICIES):
    policy = policy_lib.load(flags.run, flags.which, flags.trust, flags.policy)
    name, actor.choose = f"version {policy.version}", policy.actor.act
  elif flags.policy != _RANDOM:
    actor.choose = _load_function(flags.policy, environment)
  folder = pathlib.Path(flags.out)
  recorder_lib.check_new_folder(f"--out={flags.out}", folder)
  recorder = recorder_lib.Recorder(
    folder,
    folder.name,
    base.get_evaluation_environment(config),
    environment,
  )
  try:
    episodes = evaluation.play(
      environment,
      typing.cast(core.Actor, actor),  # whose method `act` only is called
      flags.episodes,
      observe=recorder.add,
      warn_after_s=evaluate.WARN_AFTER_S,
    )
  finally:
    lost = recorder.close()
  environment.close()
  assert episodes is not None
  print(evaluate.describe(episodes, name, environment.name))
  print(f"{recorder.episodes - lost} episodes recorded: {flags.out}")
  return 2 if lost else 0


def define_flags() -> flags_lib.Flags:
  """Returns the flags of `slipway record`, before parsing."""
  flags = flags_lib.Flags()
  flags.add_run(
    "Folder of the run whose policy or environment is played: runs/<name>."
  )
  flags.add_text(
    "environment",
    None,
    "In place of --run: gymnasium id or module:Class of the environment, for a "
    "policy that needs no run.",
  )
  flags.add_text("out", None, "New folder in which the episodes are saved.")
  flags.add_integer("episodes", 20, "Number of episodes to play.", 1, 10**9)
  flags.add_text(
    "policy",
    None,
    "Actions: greedy, the most probable ones of the run's policy; sampled from "
    "it, as in training; random, uniform ones; or those of a function of "
    "yours, module:name. Default: the config's evaluation.policy.",
  )
  flags.add_probability(
    "epsilon", 0.0, "Probability with which an action is a random one instead."
  )
  flags.add_source()
  flags.add_trust()
  return flags


def _check_flags(flags: flags_lib.Flags) -> None:
  """Raises ValueError for flags that contradict each other."""
  needs_run = flags.policy in (None, *groups.POLICIES)
  if flags.out is None:
    raise ValueError(
      "--out is missing, so the episodes have no place: give --out=FOLDER"
    )
  if flags.run and flags.environment:
    raise ValueError(
      f"--environment={flags.environment} is in place of --run, and "
      f"--run={flags.run} has an environment: leave one of them out"
    )
  if needs_run and not flags.run:
    raise ValueError(
      f"--environment={flags.environment} has no policy to play: give "
      "--policy=random, --policy=module:name, or --run=FOLDER in its place"
    )
  if not needs_run and flags.policy != _RANDOM and ":" not in flags.policy:
    raise ValueError(
      f"--policy={flags.policy} is none of {', '.join(groups.POLICIES)} and "
      f"{_RANDOM}, so it is not known how to act: give one of them, or the "
      "module:name of a function"
    )


class _Actor:
  """Actor of a policy, some of whose actions are random.

  Attributes:
    choose: function of observations, rewards and beginnings of episodes, as
      `core.Actor.act`; None for random actions.
  """

  choose: Callable[..., adder.ActorOutput] | None = None

  def __init__(
    self, environment: vector.VectorEnvironment, epsilon: float, seed: int
  ):
    self._environment, self._epsilon = environment, epsilon
    self._random = np.random.default_rng(seed)

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    others = self._environment.sample_actions(observation, self._random)
    if self.choose is None:
      return adder.ActorOutput(others, {})
    actions = self.choose(observation, reward, first).action
    if actions.ndim < others.ndim:  # numbers of joint actions
      sizes = arrays.component_sizes(self._environment.spec.actions)
      actions = arrays.list_joint_actions(sizes or ())[actions]
    explores = self._random.random(len(actions)) < self._epsilon
    actions = np.where(explores, others.T, actions.T).T
    return adder.ActorOutput(actions.astype(others.dtype), {})


def _load_function(
  name: str, environment: vector.VectorEnvironment
) -> Callable[..., adder.ActorOutput]:
  """Imports a function of the user, whose actions are checked."""
  # Or a class, whose instance, made without arguments, is such a function.
  space = environment.action_space
  prefix, needed = f"--policy={name!r}", f"actions of {spaces.one_line(space)}"
  function = user_code.load(prefix, name, f"a function that returns {needed}")
  if isinstance(function, type):
    function = function()
  shape = (environment.num_envs, *(space.shape or ()))

  def choose(observation: np.ndarray, *_: np.ndarray) -> adder.ActorOutput:
    returned = function(observation)
    actions = np.asarray(returned)
    if actions.shape == shape and np.can_cast(
      actions.dtype, space.dtype, "same_kind"
    ):
      actions = actions.astype(space.dtype)
      if all(map(space.contains, actions)):
        actions = conversion.convert_actions_to_spec(space, actions)
        return adder.ActorOutput(actions, {})
    raise user_code.UserCodeError(
      f"{prefix} returned {fields.format_value(returned)} for {shape[0]} "
      f"observations, which are not as many {needed}, so no environment was "
      "stepped: return an array of them"
    )

  return choose
