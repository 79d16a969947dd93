"""The search of Gumbel MuZero: mctx's results, and plans of known tasks."""

import pathlib

import numpy as np
import pytest

from slipway.agents.muzero import search

_CASES = np.load(pathlib.Path(__file__).parent / "mctx_cases.npz")


def _read(actions):
  """Returns the arrays of the cases with this number of actions, by name."""
  names = [x for x in _CASES.files if x.startswith(f"{actions}/")]
  return {x.partition("/")[2]: _CASES[x] for x in names}


@pytest.mark.parametrize("actions", [2, 4, 9])
def test_results_are_those_of_mctx(actions):
  arrays = _read(actions)
  model = {x: arrays.pop(x) for x in list(arrays) if x.startswith("model")}

  def step(state, action):
    following = model["model_state"][state, action]
    return search.Step(
      model["model_reward"][state, action],
      discount * model["model_continues"][state, action],
      model["model_logits"][following],
      model["model_value"][following],
      following,
    )

  for i, (simulations, considered, discount) in enumerate(arrays["settings"]):
    discount = np.float32(discount)
    case = {name: x[i] for name, x in arrays.items()}
    state = case["state"]
    result = search.search(
      step,
      search.Root(
        model["model_logits"][state], model["model_value"][state], state
      ),
      case["gumbel"],
      search.Settings(int(simulations), int(considered)),
      None if case["allowed"].all() else case["allowed"],
    )
    np.testing.assert_array_equal(result.visits, case["visits"], str(i))
    np.testing.assert_array_equal(result.action, case["action"])
    np.testing.assert_allclose(result.policy, case["policy"], atol=1e-5)


_SIZE, _GOAL = 3, np.array((2, 1))


def _move(state, action):
  """Returns rewards and next cells of a grid of 3 x 3 cells, with one goal.

  A step into the goal, from which no action leads away, has the reward 1.
  """
  cell = np.stack(np.divmod(state, _SIZE), axis=-1)
  moves = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
  at_goal = (cell == _GOAL).all(axis=-1)
  following = np.clip(cell + moves[action], 0, _SIZE - 1)
  following = np.where(at_goal[:, None], cell, following)
  reward = (following == _GOAL).all(axis=-1) & ~at_goal
  return reward.astype(np.float32), following @ (_SIZE, 1)


def _step_in_grid(state, action):
  """Returns the step of a perfect model without a policy and values."""
  reward, following = _move(state, action)
  zeros = np.zeros((len(state), 4), np.float32)
  discount = np.full(len(state), 0.9, np.float32)
  return search.Step(reward, discount, zeros, zeros[:, 0], following)


def test_plans_with_a_perfect_model_are_optimal():
  state = np.array([s for s in range(_SIZE**2) if s != _GOAL @ (_SIZE, 1)])
  zeros = np.zeros((len(state), 4), np.float32)
  result = search.search(
    _step_in_grid,
    search.Root(zeros, zeros[:, 0], state),
    gumbel=zeros,
    settings=search.Settings(200, 4),
  )

  def distance(cells):
    return np.abs(np.stack(np.divmod(cells, _SIZE), -1) - _GOAL).sum(axis=-1)

  _, following = _move(state, result.action)
  np.testing.assert_array_equal(distance(following), distance(state) - 1)
  # The policy's target gives most weight to the actions on shortest paths.
  _, following = _move(state, result.policy.argmax(axis=1))
  np.testing.assert_array_equal(distance(following), distance(state) - 1)


def test_the_smallest_difference_of_returns_changes_policies_like_others():
  """Rewards are 0 or 0.01, so is the range of Q-values of the root."""

  def step(state, action):
    zeros = np.zeros((len(state), 2), np.float32)
    reward = 0.01 * (action == 1) * (state == 0)
    discount = np.full(len(state), 0.9, np.float32)
    return search.Step(reward, discount, zeros, zeros[:, 0], state + 1)

  zeros = np.zeros((1, 2), np.float32)
  root = search.Root(zeros, zeros[:, 0], np.zeros(1, int))
  policy = search.search(step, root, zeros, search.Settings(8, 2)).policy
  found = np.log(policy[0, 1] / policy[0, 0])
  # The weight of Q-values, with 4 visits of each action, is 5.4.
  np.testing.assert_allclose(found, 5.4, rtol=1e-5)


def test_actions_that_are_not_allowed_are_neither_visited_nor_learned():
  state = np.zeros(3, int)
  zeros = np.zeros((3, 4), np.float32)
  allowed = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]], bool)
  result = search.search(
    _step_in_grid,
    search.Root(zeros, zeros[:, 0], state),
    gumbel=np.random.default_rng(0).gumbel(size=(3, 4)).astype(np.float32),
    settings=search.Settings(8, 4),
    allowed=allowed,
  )
  assert result.action[0] == 1
  assert result.action[1] in (0, 2)
  assert result.action[2] == 0  # a row without allowed actions
  assert result.visits[0, 1] == 8
  assert not result.visits[:2][~allowed[:2]].any()
  assert not result.policy[:2][~allowed[:2]].any()
  np.testing.assert_allclose(result.policy.sum(axis=1), 1.0, rtol=1e-6)
