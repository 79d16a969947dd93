"""VectorEnvironment: a batch of environments that one call steps.

The table shows the autoreset (gymnasium's `AutoresetMode.NEXT_STEP`) of one
environment of the batch, whose episode ends in step 3:

| call | observation | reward | terminated or truncated | first |
|---|---|---|---|---|
| reset | o_0 | 0 | no | yes |
| step 1 | o_1 | r_1 | no | no |
| step 2 | o_2 | r_2 | no | no |
| step 3 | o_3, the episode's last | r_3 | yes | no |
| step 4 | o_0 of the next episode | 0 | no | yes: the action is ignored |
| step 5 | o_1 | r_1 | no | no |

https://farama.org/Vector-Autoreset-Mode
"""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import utils as vector_utils

from slipway.environments import (
  arrays,
  asynchronous,
  checked,
  conversion,
  episode_infos,
  masks,
  spaces,
  specs,
  user_code,
)

# Attributes of gymnasium's vector environments that can't be pickled:
# SyncVectorEnv's functions that make the environments.
_NOT_SAVED = ("env_fns",)
# A sum of squares up to this one proves that no value is above the largest
# size, in less time than a comparison of each value takes.
_LARGEST_SQUARE = specs.LARGEST**2
# Description of a reward for learning, in error messages.
_SCALED_REWARD = "a reward that config.environment.reward_scale makes"


class StepBatch(NamedTuple):
  """Result of a reset or step of B environments.

  Later steps do not change the arrays.

  Attributes:
    observation: Observations of the spec, C-contiguous.  # [B, ...]
    reward: float32 [B], scaled and clipped as the config defines, for learning.
    terminated: bool [B], whether the environment ended the episode, so that no
      value is bootstrapped.
    truncated: bool [B], whether a limit ended the episode, so that the value of
      the observation is bootstrapped.
    first: bool [B], whether the observation is the first of an episode: after
      `reset`, or after an autoreset, which ignores its action. The reward is
      then 0, and the step is not a transition.
    raw_reward: float64 [B], the environment's own reward, for reported returns.
  """

  observation: np.ndarray
  reward: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray
  first: np.ndarray
  raw_reward: np.ndarray


class VectorEnvironment:
  """A gymnasium vector environment with a spec in Acme's terms.

  Attributes:
    name: gymnasium id.
    spec: Spec of one environment.
    num_envs: B, the number of environments.
    observation_space: gymnasium space of one environment's observations.
    action_space: gymnasium space of one environment's actions.
    info: Numbers of the infos of episodes' last steps, float64 [B] by name; nan
      where the last step has not ended an episode, or its info has no such
      number. It is empty unless the constructor gets names.

  >>> environment = factory.make(config.environment, num_envs=16, seed=0)
  >>> before = environment.reset()
  >>> step = environment.step(act(before.observation))
  >>> transitions = ~step.first
  """

  def __init__(
    self,
    envs: gymnasium.vector.VectorEnv,
    name: str,
    seed: int,
    copy_observations: bool = True,
    masked: bool = False,
    transform_rewards: conversion.Convert | None = None,
    info_names: Sequence[str] = (),
    num_envs: int | None = None,
  ):
    """Wraps gymnasium's vector environment.

    Args:
      seed: Seed of the first `reset`, and so of every trajectory; later resets
        continue with the environments' random generators.
      copy_observations: Whether to copy observations. False requires that
        `envs` returns a new C-contiguous array per step; otherwise gymnasium
        overwrites the last observation.
      transform_rewards: Function from the environments' rewards [B] to those
        from which agents learn, or None if they are equal.
      num_envs: Number of environments that `envs` must have, or None for any.

    Raises:
      ValueError: `envs` has another number of environments, another autoreset
        mode, or unsupported spaces.
    """
    metadata = envs.metadata
    if metadata is gymnasium.vector.VectorEnv.metadata:
      # The class's dict, shared by environments without metadata of their own:
      # ale_py writes its mode into it.
      metadata = {}
    if num_envs is not None and envs.num_envs != num_envs:
      raise ValueError(
        f"config.environment.name is {name!r}, whose vector environment has "
        f"{envs.num_envs} environments where {num_envs} are needed: make as "
        "many as its argument num_envs says"
      )
    mode = getattr(envs, "autoreset_mode", metadata.get("autoreset_mode"))
    if mode is not gymnasium.vector.AutoresetMode.NEXT_STEP:
      raise ValueError(
        f"config.environment.name is {name!r}, made with autoreset_mode "
        f"{mode}: agents would learn from steps across episodes' ends, which "
        "never happened; remove autoreset_mode from config.environment.kwargs, "
        "so that it is NEXT_STEP"
      )
    self.spec = specs.make_spec(
      name, envs.single_observation_space, envs.single_action_space, masked
    )
    self._masks = masks.MaskReader(envs.single_action_space) if masked else None
    self._infos = episode_infos.InfoReader(info_names) if info_names else None
    self.info: Mapping[str, np.ndarray] = {}
    self.num_envs = envs.num_envs
    self._envs = envs
    self._threads = asynchronous.find_threaded(envs)
    self.name = name
    self._seed: int | None = seed  # of the next reset
    self._first_seed, self._steps = seed, 0
    # bool [B]: whether each environment's episode ended in the last step; None
    # before the first reset.
    self._done: np.ndarray | None = None
    self.observation_space = envs.single_observation_space
    self.action_space = envs.single_action_space
    self._observe = conversion.make_observation_converter_to_spec(
      self.observation_space, self.spec.observations.dtype, copy_observations
    )
    self._transform_rewards = transform_rewards
    self._convert_actions = conversion.make_action_converter_to_space(
      self.action_space
    )
    self._has_floats = self.spec.observations.dtype.kind == "f"
    # Leaves of the observations whose data types must be checked: those of a
    # batch that gymnasium assembles are checked one by one before.
    self._unchecked_leaves: list[spaces.Leaf] = []
    if not isinstance(envs, gymnasium.vector.SyncVectorEnv):
      self._unchecked_leaves += spaces.leaves(self.observation_space)

  def convert_observations_to_spec(
    self, observations: np.ndarray
  ) -> np.ndarray:
    """Converts observations of the gymnasium space to those of the spec.

    Args:
      observations: Observations in the space's structure.  # [B, ...]
    """
    return self._observe(observations)

  def convert_rewards_to_spec(self, rewards: np.ndarray) -> np.ndarray:
    """Returns rewards [B] as agents receive them: scaled, and clipped."""
    if self._transform_rewards is None:
      return rewards
    return self._transform_rewards(rewards)

  def convert_actions_to_space(self, actions: np.ndarray) -> np.ndarray:
    """Converts actions [B, ...] of the spec to those of the gymnasium space."""
    return self._convert_actions(actions) if self._convert_actions else actions

  @property
  def renders(self) -> bool:
    """Whether the environments support the render mode "rgb_array"."""
    return "rgb_array" in self._envs.metadata.get("render_modes", ())

  @property
  def frames_per_second(self) -> int:
    """Frame rate of videos of `render`'s frames, in frames per second."""
    return self._envs.metadata.get("render_fps") or 30

  def reset(self) -> StepBatch:
    """Starts an episode in every environment.

    Returns:
      The first observations; all rewards are 0.

    Raises:
      checked.EnvironmentFailedError: An environment failed.
    """
    try:
      for index, env in enumerate(self._threads):
        # As gymnasium, which then collects the results.
        env.start_reset(None if self._seed is None else self._seed + index)
      observation, infos = self._envs.reset(seed=self._seed)
      self._check_not_shared("reset()")
      if self._seed is not None:
        self._steps = 0
      self._seed = None
      rewards = np.zeros(self.num_envs, np.float32)
      terminated, truncated, self._done = np.zeros((3, self.num_envs), np.bool_)
      first = np.ones(self.num_envs, np.bool_)
      return self._make_step(
        "reset()", observation, rewards, terminated, truncated, first, infos
      )
    except BaseException as error:
      raise self._make_error("reset()", error) from error

  def step(self, actions: np.ndarray) -> StepBatch:
    """Steps every environment once, or resets those whose episode has ended.

    Args:
      actions: Actions of the spec: int32 from 0 [B] or [B, K], or float32
        [B, ...], which are clipped to [-1, 1]. Actions of K components may also
        be numbers of joint actions, int32 [B].

    Returns:
      The step, in arrays that later steps do not change.

    Raises:
      RuntimeError: `reset` was never called.
      checked.EnvironmentFailedError: An environment failed.
      checked.InvalidActionError: An action is infinite or NaN.
    """
    first = self._done
    if first is None:
      raise RuntimeError("VectorEnvironment.step needs a reset before it")
    if actions.dtype.kind == "f" and not np.isfinite(actions).all():
      raise checked.InvalidActionError(self.name, actions)
    actions = self.convert_actions_to_space(actions)
    self._steps += 1
    try:
      if self._threads:
        each = vector_utils.iterate(self._envs.action_space, actions)
        for env, action, ended in zip(self._threads, each, first, strict=True):
          # Where an episode has ended, an autoreset replaces the step.
          env.start_reset(None) if ended else env.start_step(action)
      observation, reward, terminated, truncated, infos = self._envs.step(
        actions
      )
      self._check_not_shared("step()")
      terminated = self._copy_flags("terminated", terminated)
      truncated = self._copy_flags("truncated", truncated)
      self._done = terminated | truncated
      return self._make_step(
        "step()", observation, reward, terminated, truncated, first, infos
      )
    except BaseException as error:
      raise self._make_error("step()", error) from error

  def sample_actions(
    self, observation: np.ndarray, random: np.random.Generator
  ) -> np.ndarray:
    """Samples actions uniformly: legal discrete ones, or all within the bounds.

    Args:
      observation: Observations, including masks if the spec has masks.
        # [B, ...]

    Returns:
      Actions of the spec.  # [B, ...]
    """
    return arrays.sample_actions(
      self.spec.observations, self.spec.actions, observation, random
    )

  def get_state(self) -> bytes:
    """Returns the state of all environments, pickled.

    Some environments can't be pickled, or lose their state without an error;
    `saving.is_exact` detects them.

    Raises:
      Exception: An error of any type; an environment can't be pickled.
    """
    attributes = {
      k: v for k, v in vars(self._envs).items() if k not in _NOT_SAVED
    }
    return pickle.dumps(
      (attributes, self._seed, self._done, self._first_seed, self._steps)
    )

  def set_state(self, state: bytes) -> None:
    """Restores a saved state of all environments.

    Args:
      state: result of `get_state` of a `VectorEnvironment` that was made with
        the same arguments.
    """
    attributes, self._seed, self._done, self._first_seed, self._steps = (
      pickle.loads(state)
    )
    vars(self._envs).update(attributes)
    self._threads = asynchronous.find_threaded(self._envs)

  def render(self) -> np.ndarray:
    """Returns a copy of the frame that the batch's first environment renders.

    The result is not checked: it is uint8 [H, W, 3], as gymnasium defines it,
    unless the environment's renderer has a fault.
    """
    frames: Any = self._envs.render()
    # A renderer may draw all frames in the same array.
    return np.array(None if frames is None else frames[0])

  def close(self) -> None:
    """Closes all environments; no other method may be called afterwards.

    Raises:
      checked.EnvironmentFailedError: An environment failed.
    """
    try:
      self._envs.close()
    except BaseException as error:
      self._envs.closed = True  # or gymnasium would close it again at exit
      raise self._make_error("close()", error) from error

  def _check_not_shared(self, call: str) -> None:
    """Checks that no two threads write observations to the same array."""
    if not self._threads:
      return
    found = [env.observation for env in self.environments]
    own = [id(x) for x in found if isinstance(x, np.ndarray)]
    if len({*own}) < len(own):
      raise checked.EnvironmentFault(
        None,
        f"{call} of several environments returned the same array, which they "
        "overwrite for each other with config.environment.asynchronous=True: "
        "return a new array in each call, or set it to False",
      )

  def _copy_flags(self, field: str, flags: Any) -> np.ndarray:
    """Returns a copy of the flags that a batch's step returned, bool [B]."""
    found = np.asarray(flags)
    if found.shape != (self.num_envs,) or found.dtype.kind not in "biu":
      raise checked.EnvironmentFault(
        None,
        f"step() of the vector environment returned {field} {found.dtype} "
        f"{list(found.shape)}, so it is unknown which episodes have ended: "
        f"return a NumPy array of bools {[self.num_envs]}",
      )
    return np.array(found, np.bool_)

  def _make_step(
    self,
    call: str,
    observation: Any,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    first: np.ndarray,
    infos: dict[str, Any],
  ) -> StepBatch:
    """Returns checked and converted results of gymnasium's reset or step."""
    if self._unchecked_leaves:
      reward = self._check_batch(call, observation, reward)
    observation = self._observe(observation)
    # A copy, like that of the flags: a vector environment of the user's own may
    # return the same array in each step.
    raw_reward = np.array(reward, np.float64)
    with np.errstate(over="ignore"):
      reward = raw_reward.astype(np.float32)
    if self._has_floats and not _is_small(observation):
      self._check_size(call, "observation", observation)
    if not _is_small(reward):
      self._check_size(call, "reward", reward)
    if self._masks is not None:
      observation = self._add_mask(call, observation, infos, terminated)
    learned_reward = self.convert_rewards_to_spec(reward)
    if learned_reward is not reward and not _is_small(learned_reward):
      self._check_size(call, _SCALED_REWARD, learned_reward)
    if self._infos is not None:
      self.info = self._infos.read_batch(infos, terminated | truncated)
    return StepBatch(
      observation,
      learned_reward,
      terminated,
      truncated,
      first,
      raw_reward,
    )

  def _add_mask(
    self,
    call: str,
    observation: np.ndarray,
    infos: dict[str, Any],
    terminated: np.ndarray,
  ) -> np.ndarray:
    """Returns observations with action masks appended, [B, N + M]."""
    assert self._masks is not None
    assert isinstance(self.spec.observations, arrays.MaskedArray)
    try:
      mask = self._masks.read_batch(infos, terminated)
    except masks.InvalidMaskError as error:
      raise checked.EnvironmentFault(
        error.index, f"{call} returned {error}"
      ) from None
    return self.spec.observations.join(observation, mask)

  def _check_batch(self, call: str, observation: Any, reward: Any) -> Any:
    prefix = f"{call} of the vector environment returned"
    for leaf in self._unchecked_leaves:
      where = f"observations{spaces.subscripts(leaf.path)}"
      wanted = (self.num_envs, *(leaf.space.shape or ()))
      try:
        part = spaces.select(observation, leaf.path)
      except (KeyError, IndexError, TypeError):
        part = None
      if not isinstance(part, np.ndarray):
        found = f"no array as {where}"
      elif part.shape != wanted:
        found = f"{where} {list(part.shape)}"
      elif part.dtype is leaf.space.dtype:
        continue
      elif not np.can_cast(part.dtype, leaf.space.dtype, "same_kind"):
        found = f"{where} of type {part.dtype}"
      elif (value := spaces.find_overflow(leaf.space, part)) is not None:
        found = f"{where} with {value}, of type {part.dtype}"
      else:
        continue
      raise checked.EnvironmentFault(
        None,
        f"{prefix} {found}, but their space is {spaces.one_line(leaf.space)}: "
        f"return an array {list(wanted)} of it",
      )
    rewards = np.asarray(reward)
    if rewards.shape != (self.num_envs,) or rewards.dtype.kind not in "biuf":
      raise checked.EnvironmentFault(
        None,
        f"{prefix} rewards {list(rewards.shape)} of type {rewards.dtype}: "
        f"return an array of {self.num_envs} numbers",
      )
    return rewards

  def _check_size(self, call: str, field: str, values: np.ndarray) -> None:
    small = (np.abs(values) <= specs.LARGEST).reshape(self.num_envs, -1)
    if small.all():
      return
    index = int(np.argmin(small.all(axis=1)))
    value = values[index].reshape(-1)[np.argmin(small[index])]
    advice = "return finite numbers"
    if np.isfinite(value):
      advice = (
        f"return numbers of at most {specs.LARGEST:g} in size, also for what "
        "is missing or out of reach"
      )
    raise checked.EnvironmentFault(
      index,
      f"{call} returned {field} {value:g} (as float32), from which nothing can "
      f"be learned: {advice}",
    )

  def _make_error(
    self, call: str, error: BaseException
  ) -> checked.EnvironmentFailedError:
    user_code.raise_interrupt(error)
    fault = self._find_fault(call, error)
    seed, steps = self._first_seed, self._steps
    envs = self.environments
    if envs and fault.index is not None:
      seed, steps = envs[fault.index].seed, envs[fault.index].steps
    return checked.EnvironmentFailedError(self.name, fault, seed, steps)

  @property
  def environments(self) -> list[checked.CheckedEnvironment]:
    """The batch's checked environments; empty if gymnasium steps one batch."""
    envs = getattr(self._envs, "envs", ())
    return [env for env in envs if isinstance(env, checked.CheckedEnvironment)]

  def _find_fault(
    self, call: str, error: BaseException
  ) -> checked.EnvironmentFault:
    if isinstance(error, checked.EnvironmentFault):
      return error
    faults = (env.find_observation_fault(call) for env in self.environments)
    found = next(filter(None, faults), None)
    if found is not None:
      return found
    return checked.EnvironmentFault.from_error(None, call, error)


def _is_small(values: np.ndarray) -> bool:
  """Returns whether all values are surely at most `specs.LARGEST` in size."""
  flat = values.reshape(-1)
  return bool(flat.dot(flat) <= _LARGEST_SQUARE)  # False for nan, too
