"""VectorEnvironment: a batch of environments stepped at once.

The autoreset contract (gymnasium's `AutoresetMode.NEXT_STEP`), for one
environment of the batch whose episode ends at step 3:

| call | observation | reward | terminated or truncated | first |
|---|---|---|---|---|
| reset | o_0 | 0 | no | yes |
| step 1 | o_1 | r_1 | no | no |
| step 2 | o_2 | r_2 | no | no |
| step 3 | o_3, the true last one | r_3 | yes | no |
| step 4 | o_0 of the next episode | 0 | no | yes: its action was ignored |
| step 5 | o_1 | r_1 | no | no |

https://farama.org/Vector-Autoreset-Mode
"""

import math
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from slipway.environments import (
  arrays,
  asynchronous,
  checked,
  conversion,
  masks,
  specs,
)

# SyncVectorEnv keeps what it was made by: closures, which no pickle takes.
_NOT_SAVED = ("env_fns",)


class StepBatch(NamedTuple):
  """Where B environments came by a step; the caller owns every array.

  Attributes:
    observation: As the spec says, C-contiguous.  # [B, ...]
    reward: float32, scaled and clipped as the config says.  # [B]
    terminated: bool; the environment ended the episode: no bootstrap.  # [B]
    truncated: bool; a limit cut the episode: bootstrap.  # [B]
    first: bool; the observation opens an episode: after `reset`, or where the
      step was an autoreset, which ignores its action. The reward is 0, and it
      is never a transition.  # [B]
    raw_reward: float32, the environment's own, of which returns are reported;
      the same array as `reward` where that is not scaled or clipped.  # [B]
  """

  observation: np.ndarray
  reward: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray
  first: np.ndarray
  raw_reward: np.ndarray


class VectorEnvironment:
  """A gymnasium vector environment in Acme's terms.

  Attributes:
    name: The gymnasium id.
    spec: One environment, as agents see it.
    num_envs: B.
    observation_space: One environment's own, in gymnasium's terms.
    action_space: The same for actions.

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
    read_rewards: conversion.Convert | None = None,
  ):
    """Wraps `envs`.

    Args:
      envs: Environments that autoreset in the mode NEXT_STEP.
      name: The gymnasium id.
      seed: Seeds the first `reset`, and so every trajectory. Later resets draw
        on from where the generators then are.
      copy_observations: False only where `envs` returns a new, C-contiguous
        buffer from every step; otherwise each observation is copied once, into
        the spec's dtype, since gymnasium writes the next one over it.
      masked: Whether infos have action masks, as `masks` describes them.
      read_rewards: From the environments' rewards [B] to those that agents
        learn from; None: they are the same.

    Raises:
      ValueError: Another autoreset mode, or spaces without a spec.
    """
    metadata = envs.metadata
    if metadata is gymnasium.vector.VectorEnv.metadata:
      # One dict for all that declare none, and ale_py writes its mode in it.
      metadata = {}
    mode = getattr(envs, "autoreset_mode", metadata.get("autoreset_mode"))
    if mode is not gymnasium.vector.AutoresetMode.NEXT_STEP:
      raise ValueError(
        f"config.environment.name is {name!r}, made with autoreset_mode "
        f"{mode}: where an episode ends, steps would be learnt from that never "
        "happened; leave autoreset_mode out of config.environment.kwargs, so "
        "that it is NEXT_STEP"
      )
    self.spec = specs.make_spec(
      name, envs.single_observation_space, envs.single_action_space, masked
    )
    self._masks = masks.MaskReader(envs.single_action_space) if masked else None
    self.num_envs = envs.num_envs
    self._envs = envs
    self._threads = asynchronous.make_batch(envs)
    self.name = name
    self._seed: int | None = seed  # of the next reset
    self._first_seed, self._steps = seed, 0
    self._done: np.ndarray | None = None  # [B]
    self.observation_space = envs.single_observation_space
    self.action_space = envs.single_action_space
    self._observe = conversion.make_observation_reader(
      self.observation_space, self.spec.observations.dtype, copy_observations
    )
    self._read_rewards = read_rewards
    self._write_actions = conversion.make_action_writer(self.action_space)
    self._has_floats = self.spec.observations.dtype.kind == "f"
    own_shape = self.observation_space.shape  # None: a Dict or Tuple
    self._shape = None if own_shape is None else (self.num_envs, *own_shape)

  def read_observations(self, observations: np.ndarray) -> np.ndarray:
    """Converts the space's own observations [B, ...] to those of the spec."""
    return self._observe(observations)

  def write_actions(self, actions: np.ndarray) -> np.ndarray:
    """Converts actions of the spec [B, ...] to those of the space."""
    return self._write_actions(actions) if self._write_actions else actions

  @property
  def renders(self) -> bool:
    """Whether `render` has frames if made with `render_mode="rgb_array"`."""
    return "rgb_array" in self._envs.metadata.get("render_modes", ())

  @property
  def frames_per_second(self) -> int:
    """The frame rate at which `render` is meant to be watched."""
    return self._envs.metadata.get("render_fps", 30)

  def reset(self) -> StepBatch:
    """Opens an episode in every environment.

    Raises:
      checked.EnvironmentFailedError: one of them failed.
    """
    try:
      if self._threads is not None:
        self._threads.start_resets(self._seed)
      observation, infos = self._envs.reset(seed=self._seed)
      if self._seed is not None:
        self._steps = 0
      self._seed = None
      nothing = np.zeros(self.num_envs, np.bool_)
      self._done = nothing
      return self._make_step(
        "reset()",
        *(observation, np.zeros(self.num_envs, np.float32)),
        *(nothing.copy(), nothing.copy(), ~nothing),
        infos,
      )
    except KeyboardInterrupt:
      raise
    except BaseException as error:
      raise self._explain("reset()", error) from error

  def step(self, actions: np.ndarray) -> StepBatch:
    """Steps every environment once.

    Args:
      actions: As the spec says: int32 from 0 [B] or [B, K], or float32
        [B, ...] in [-1, 1], to which they are clipped. For actions of K
        components also the numbers of joint actions, int32 [B].

    Returns:
      The step, in arrays that nothing writes to afterwards.

    Raises:
      RuntimeError: `reset` was never called.
      checked.EnvironmentFailedError: one of them failed.
    """
    first = self._done
    if first is None:
      raise RuntimeError("VectorEnvironment.step needs a reset before it")
    actions = self.write_actions(actions)
    self._steps += 1
    try:
      if self._threads is not None:
        self._threads.start_steps(actions, first)
      observation, reward, terminated, truncated, infos = self._envs.step(
        actions
      )
      self._done = terminated | truncated
      return self._make_step(
        "step()", observation, reward, terminated, truncated, first, infos
      )
    except KeyboardInterrupt:
      raise
    except BaseException as error:
      raise self._explain("step()", error) from error

  def sample_actions(
    self, observation: np.ndarray, random: np.random.Generator
  ) -> np.ndarray:
    """Samples actions [B, ...] uniformly, without those that a mask forbids.

    Args:
      observation: What is acted on.  # [B, ...]
      random: Of the samples.
    """
    return arrays.sample_actions(
      self.spec.observations, self.spec.actions, observation, random
    )

  def get_state(self) -> bytes:
    """The environments as they are now, pickled.

    Not all can be, and some only seem to: see `saving.is_exact`.

    Raises:
      Exception: of any kind: something in them is not made for it.
    """
    parts = {k: v for k, v in vars(self._envs).items() if k not in _NOT_SAVED}
    return pickle.dumps((parts, self._seed, self._done))

  def set_state(self, state: bytes) -> None:
    """Goes on where environments made by the same arguments were.

    Args:
      state: what their `get_state` gave.
    """
    parts, self._seed, self._done = pickle.loads(state)
    vars(self._envs).update(parts)
    self._threads = asynchronous.make_batch(self._envs)

  def render(self) -> np.ndarray:
    """Returns the first environment's frame, uint8 [H, W, 3]."""
    frames: Any = self._envs.render()
    return frames[0]

  def close(self) -> None:
    """Frees what the environments hold; the object is of no use afterwards.

    Raises:
      checked.EnvironmentFailedError: one of them failed.
    """
    try:
      self._envs.close()
    except KeyboardInterrupt:
      raise
    except BaseException as error:
      self._envs.closed = True  # or it would be tried again at the exit
      raise self._explain("close()", error) from error

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
    """Returns a step as the spec says, after a look at all of it at once."""
    shape = None if self._shape is None else observation.shape
    if shape != self._shape or reward.shape != (self.num_envs,):
      raise checked.Fault(
        None,
        f"{call} of the vector environment returned observations {shape} and "
        f"rewards {reward.shape}, not {self._shape} and {(self.num_envs,)}: "
        "correct it or its spaces",
      )
    observation = self._observe(observation)
    reward = reward.astype(np.float32, copy=False)
    # One sum for all: where it is finite, all of them are. NumPy's own isfinite
    # and dot, which use wider instructions, cost several times as much here.
    if self._has_floats:
      values = observation.reshape(-1)
      if not math.isfinite(np.add.reduce(values)):
        self._check_finite(call, "observation", observation)
    if not math.isfinite(np.add.reduce(reward)):
      self._check_finite(call, "reward", reward)
    if self._masks is not None:
      observation = self._add_mask(call, observation, infos, terminated)
    raw_reward = reward
    if self._read_rewards is not None:
      reward = self._read_rewards(reward)
    return StepBatch(
      observation, reward, terminated, truncated, first, raw_reward
    )

  def _add_mask(
    self,
    call: str,
    observation: np.ndarray,
    infos: dict[str, Any],
    terminated: np.ndarray,
  ) -> np.ndarray:
    """Returns observations [B, N + M], each with its action mask."""
    assert self._masks is not None
    assert isinstance(self.spec.observations, arrays.MaskedArray)
    try:
      mask = self._masks.read_batch(infos, terminated)
    except masks.InvalidMaskError as error:
      raise checked.Fault(error.index, f"{call} returned {error}") from None
    return self.spec.observations.join(observation, mask)

  def _check_finite(self, call: str, field: str, values: np.ndarray) -> None:
    """Raises the fault of the first environment whose values aren't finite."""
    finite = np.isfinite(values).reshape(self.num_envs, -1)
    if finite.all():
      return
    index = int(np.argmin(finite.all(axis=1)))
    value = values[index].reshape(-1)[np.argmin(finite[index])]
    raise checked.Fault(
      index,
      f"{call} returned {field} {value} (as float32), from which nothing can "
      "be learned: return finite numbers",
    )

  def _explain(
    self, call: str, error: BaseException
  ) -> checked.EnvironmentFailedError:
    fault = self._find_fault(call, error)
    seed, steps = self._first_seed, self._steps
    envs = self._checked
    if envs and fault.index is not None:
      seed, steps = envs[fault.index].seed, envs[fault.index].steps
    return checked.EnvironmentFailedError(self.name, fault, seed, steps)

  @property
  def _checked(self) -> Sequence[checked.CheckedEnvironment]:
    """The environments, where each is one for gymnasium; otherwise empty."""
    envs = getattr(self._envs, "envs", ())
    return [env for env in envs if isinstance(env, checked.CheckedEnvironment)]

  def _find_fault(self, call: str, error: BaseException) -> checked.Fault:
    if isinstance(error, checked.Fault):
      return error
    faults = (env.find_observation_fault(call) for env in self._checked)
    found = next(filter(None, faults), None)
    if found is not None:
      return found
    return checked.Fault.from_error(None, call, error)
