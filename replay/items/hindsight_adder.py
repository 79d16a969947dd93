"""Hindsight adder: adds copies of transitions with goals that were achieved."""

import copy
import typing
from collections.abc import Mapping

import numpy as np

from slipway.replay.items import adder as adder_lib
from slipway.replay.items import transitions

# Steps after which an episode without an end is relabelled in parts, so that
# its memory is bounded.
LONGEST = 10_000


class Goals(typing.Protocol):
  """Where goals are in flat observations [N], and the rewards of goals.

  Attributes:
    achieved: columns of the achieved goal.
    desired: columns of the desired goal.
  """

  achieved: slice
  desired: slice

  def compute(
    self, achieved: np.ndarray, desired: np.ndarray, terminated: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns rewards and terminations [M] for goals [M, G] of M steps."""
    ...


class HindsightAdder:
  """Adder that also gives transitions a goal that their episode achieved.

  When an episode ends, each of its transitions is added K more times, with
  desired goals that were achieved later in the episode, and the rewards of
  these goals: Andrychowicz et al. 2017, "Hindsight experience replay"
  (https://arxiv.org/abs/1707.01495), algorithm 1 and section 4.5. The strategy
  'future' samples a goal from the observations after the transition, 'final'
  takes the last one.
  """

  def __init__(
    self,
    adder: adder_lib.NStepAdder,
    goals: Goals,
    num_envs: int,
    copies: int,
    is_final: bool,
    discount: float,
    seed: int,
  ):
    """Makes an adder around that of the transitions themselves.

    Args:
      adder: adder of transitions of one step, with whole observations.
      copies: K.
      is_final: whether goals are those of the episode's last observation.
      discount: gamma, as that of `adder`.
      seed: seed of the sampled goals.
    """
    self._adder, self._goals = adder, goals
    self._copies, self._is_final = copies, is_final
    self._discount = np.float32(discount)
    self._random = np.random.default_rng(seed)
    # Observation, action, termination and version of each step of the
    # unfinished episodes.
    self._episodes: list[list[tuple]] = [[] for _ in range(num_envs)]

  def add(
    self,
    observation: np.ndarray,
    output: adder_lib.ActorOutput,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    first: np.ndarray,
    next_observation: np.ndarray,
    version: int,
  ) -> adder_lib.Items | None:
    """Adds one step of every environment; see `slipway.agents.core.Adder`."""
    items = self._adder.add(
      *(observation, output, reward, terminated),
      *(truncated, first, next_observation, version),
    )
    found = [items]
    ended = terminated | truncated
    for env in np.flatnonzero(~first):
      steps = self._episodes[env]
      action = output.action[env].copy()
      steps.append((observation[env], action, terminated[env], version))
      if ended[env] or len(steps) == LONGEST:
        found.append(self._relabel(steps, next_observation[env]))
        steps.clear()
    return _join([items for items in found if items is not None])

  def _relabel(
    self, steps: list[tuple], last: np.ndarray
  ) -> adder_lib.Items | None:
    """Returns the relabelled transitions of an episode, in a random order."""
    before, *columns = zip(*steps, strict=True)
    actions, terminated, versions = map(np.array, columns)
    observations = np.stack([*before, last])  # [T + 1, N]
    length, goals = len(actions), self._goals
    t = self._random.permutation(np.repeat(np.arange(length), self._copies))
    chosen = np.full_like(t, length)
    if not self._is_final:
      chosen = self._random.integers(t + 1, length + 1)
    o_tm1, o_t = observations[t], observations[t + 1]
    goal = observations[chosen, goals.achieved]
    o_tm1[:, goals.desired] = o_t[:, goals.desired] = goal
    rewards, terminated = goals.compute(
      o_t[:, goals.achieved], goal, terminated[t]
    )
    fields = {
      "o_tm1": o_tm1,
      "a_tm1": actions[t],
      "r_t": rewards,
      "discount_t": self._discount * ~terminated,
      "o_t": o_t,
      transitions.VERSION: versions[t],
    }
    return self._adder.pack(fields, np.ones(len(t), np.float32))

  def get_state(self) -> dict[str, typing.Any]:
    """Returns a copy of the adder's state, such as unfinished episodes."""
    return {
      "adder": self._adder.get_state(),
      "episodes": copy.deepcopy(self._episodes),
      "random": self._random.bit_generator.state,
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a result of `get_state` of an adder with equal arguments."""
    self._adder.set_state(state["adder"])
    self._episodes = copy.deepcopy(state["episodes"])
    self._random.bit_generator.state = state["random"]


def _join(found: list[adder_lib.Items]) -> adder_lib.Items | None:
  """Returns all items together, or None if there are none."""
  if len(found) < 2:
    return found[0] if found else None
  records, priorities, _ = zip(*found, strict=True)
  return adder_lib.Items(np.concatenate(records), np.concatenate(priorities))
