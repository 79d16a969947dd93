"""Search: the tree search of Gumbel MuZero in NumPy, for a batch of states.

Danihelka et al. 2022, "Policy improvement by planning with Gumbel"
(https://openreview.net/forum?id=bERaNdoegnO), with the formulas of
`gumbel_muzero_policy` of DeepMind's mctx. Each environment has a tree of its
own, and all trees grow by one node per simulation.
"""

import dataclasses
import functools
import math
import typing
from collections.abc import Callable

import numpy as np

from slipway.agents.networks import numpy_ops

# c_visit of the paper, which is added to the largest visit count of a node's
# actions in the weight of Q-values, as in mctx.
_VISIT_OFFSET = np.float32(50.0)
# Smallest score of an action that is considered, as in mctx.
_MIN_SCORE = np.float32(-1e9)
# Logit of an action that is not allowed, and least probability of an action.
_MIN_LOGIT = np.finfo(np.float32).min
_MIN_PRIOR = np.finfo(np.float32).tiny
# Smallest range of a node's Q-values that is rescaled to [0, 1], as in mctx.
_MIN_RANGE = np.float32(1e-8)


class Root(typing.NamedTuple):
  """The network's outputs for the states from which the search starts.

  Attributes:
    logits: logits of the policy, float32 [B, A].
    value: values, float32 [B].
    state: states of the model, [B, ...] of any type.
  """

  logits: np.ndarray
  value: np.ndarray
  state: np.ndarray


class Step(typing.NamedTuple):
  """The model's outputs for a step from states, by an action each.

  Attributes:
    reward: rewards of the step, float32 [B].
    discount: discounts of the next states' values, float32 [B]: 0 where the
      step ends the episode.
    logits: logits of the policy in the next states, float32 [B, A].
    value: values of the next states, float32 [B].
    state: next states, [B, ...].
  """

  reward: np.ndarray
  discount: np.ndarray
  logits: np.ndarray
  value: np.ndarray
  state: np.ndarray


# Maps states [B, ...] and actions int [B] to the model's step.
Model = Callable[[np.ndarray, np.ndarray], Step]


@dataclasses.dataclass(frozen=True)
class Settings:
  """Settings of a search; the defaults are those of mctx.

  Attributes:
    simulations: number of simulations, and so of calls of the model, at least
      1.
    max_considered: largest number of actions that the root considers, at least
      1.
    value_scale: c_scale of the paper, by which rescaled Q-values are
      multiplied.
  """

  simulations: int
  max_considered: int
  value_scale: float = 0.1


class Result(typing.NamedTuple):
  """The result of a search.

  Attributes:
    action: selected actions, int32 [B].
    policy: improved policy, float32 [B, A]: the policy's target.
    visits: visit counts of the root's actions, int32 [B, A].
  """

  action: np.ndarray
  policy: np.ndarray
  visits: np.ndarray


def search(
  model: Model,
  root: Root,
  gumbel: np.ndarray,
  settings: Settings,
  allowed: np.ndarray | None = None,
) -> Result:
  """Searches from each root, and returns actions and improved policies.

  The root's actions are visited by sequential halving (algorithm 2 of the
  paper): the considered actions are those with the largest g + logits, where g
  is the Gumbel noise, and half of them with the largest g + logits + sigma(q)
  remain after each phase. Other nodes select argmax_a pi'(a) - N(a) / (1 + sum
  N), with pi' = softmax(logits + sigma(q)) (section 5). Unvisited actions have
  the mixed value of appendix D as their q, and sigma(q) = (c_visit + max N)
  value_scale q, with q rescaled to [0, 1] per node.

  The returned action is argmax g + logits + sigma(q) among the root's most
  visited actions. With g = 0, as in evaluations, the search is deterministic:
  it returns the most visited action with the largest logits + sigma(q).

  Args:
    model: the model's step, called once per simulation.
    root: outputs of the network for the roots.
    gumbel: samples of the standard Gumbel distribution, float32 [B, A]; zeros
      for an evaluation.
    settings: settings of the search.
    allowed: actions allowed at the roots, bool [B, A]; None: all. States of
      the model have no such masks. A row without any results in action 0.

  Returns:
    Actions, improved policies and visit counts.
  """
  if allowed is None:
    allowed = np.ones(root.logits.shape, bool)
  logits = root.logits - root.logits.max(axis=1, keepdims=True)
  logits = np.where(allowed, logits, _MIN_LOGIT)
  num_considered = np.minimum(allowed.sum(axis=1), settings.max_considered)
  schedule = _halve(settings.max_considered, settings.simulations)
  schedule = schedule[num_considered].T  # [simulations, B]
  tree = _Tree(root._replace(logits=logits), settings)
  noisy = gumbel + logits

  def choose(considered_visits: np.ndarray) -> np.ndarray:
    """Returns the best allowed actions with so many visits, int [B]."""
    considered = tree.root_visits() == considered_visits[:, None]
    score = np.maximum(noisy + tree.scaled_q, _MIN_SCORE)
    return np.where(considered & allowed, score, -np.inf).argmax(axis=1)

  for visits in schedule:
    parent, action = tree.descend(choose(visits))
    tree.expand(model(tree.states[parent], action))
  return Result(
    choose(tree.root_visits().max(axis=1)).astype(np.int32),
    numpy_ops.softmax(np.where(allowed, logits + tree.scaled_q, _MIN_LOGIT)),
    tree.root_visits().astype(np.int32),
  )


class _Tree:
  """Search trees of B environments with the same number of nodes.

  Node i of each environment is the i-th that it has expanded; node 0 is the
  root. The last one is a placeholder to which all unvisited actions lead, and
  itself its only child, so that paths of different lengths are one array; its
  statistics have no meaning. Arrays are flat: node i of environment b has the
  index b M + i, for M nodes, and its edge of action a the index (b M + i) A +
  a.

  The action that a node selects depends on its own statistics. So it is
  computed when these change, for all nodes of a path at once.
  """

  def __init__(self, root: Root, settings: Settings):
    batch, actions = root.logits.shape
    per_tree = settings.simulations + 2
    nodes = batch * per_tree
    self._settings, self._shape = settings, (batch, per_tree)
    self._actions = actions
    self._rows = np.arange(batch)
    self._roots = self._rows * per_tree
    self._placeholders = self._roots + per_tree - 1
    # Of nodes. Rewards and discounts are those of the steps to them. Counts are
    # float32, since they are factors of float32.
    self._reward = np.zeros(nodes, np.float32)
    self._discount = np.zeros(nodes, np.float32)
    self._raw_value = np.zeros(nodes, np.float32)
    self._value = np.zeros(nodes, np.float32)
    self._count = np.zeros(nodes, np.float32)
    self._logits = np.zeros((nodes, actions), np.float32)
    self._prior = np.zeros((nodes, actions), np.float32)
    self._selected = np.zeros(nodes, np.intp)  # edge
    self.states = np.empty((nodes, *root.state.shape[1:]), root.state.dtype)
    # Of edges.
    self._child = np.repeat(self._placeholders, per_tree * actions)
    self._visits = np.zeros((nodes, actions), np.float32)
    self._q = np.zeros((nodes, actions), np.float32)
    # The path of the present simulation, [depth, B].
    self._path = np.empty((per_tree, batch), np.intp)
    self._edges = np.empty((per_tree, batch), np.intp)
    self._depth = 0
    self._leaf_depth = self._rows
    # Nodes per tree that have been expanded.
    self._expanded = 0
    self._selected[self._placeholders] = self._placeholders * actions
    self._add_nodes(root.logits, root.value, root.state)
    self._value[self._roots] = root.value
    self._count[self._roots] = 1.0
    self._path[0] = self._roots
    self.scaled_q = np.zeros_like(root.logits)

  def root_visits(self) -> np.ndarray:
    """Returns the visit counts of the root's actions, float32 [B, A]."""
    return self._visits[self._roots]

  def descend(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns nodes and their unvisited actions, below the roots' actions."""
    edge = self._roots * self._actions + action
    depth = 0
    while True:
      self._edges[depth] = edge
      depth += 1
      node = self._child.take(edge)
      self._path[depth] = node
      unvisited = node == self._placeholders
      if unvisited.all():
        break
      edge = self._selected.take(node)
    ended = self._path[1 : depth + 1] == self._placeholders
    self._depth = depth
    self._leaf_depth = ended.argmax(axis=0) + 1
    edge = self._edges[self._leaf_depth - 1, self._rows]
    leaf = self._roots + self._expanded
    self._child[edge] = leaf
    self._path[self._leaf_depth, self._rows] = leaf
    parent = edge // self._actions
    return parent, edge - parent * self._actions

  def expand(self, step: Step) -> None:
    """Adds a node per tree at the end of the path, and updates the path."""
    self._reward.reshape(self._shape)[:, self._expanded] = step.reward
    self._discount.reshape(self._shape)[:, self._expanded] = step.discount
    self._add_nodes(step.logits, step.value, step.state)
    depth = self._depth
    path, edges = self._path[: depth + 1], self._edges[:depth]
    reward, discount = self._reward.take(path), self._discount.take(path)
    # Behind a leaf, returns and rewards are 0.
    returns = np.zeros(path.shape, np.float32)
    returns[self._leaf_depth, self._rows] = step.value
    for i in range(depth, 0, -1):
      returns[i - 1] += reward[i] + discount[i] * returns[i]
    count = self._count.take(path)
    value = self._value.take(path)
    value *= count
    value += returns
    value /= count + 1.0
    self._value[path] = value
    self._count[path] = count + 1.0
    self._visits.reshape(-1)[edges] += 1.0
    self._q.reshape(-1)[edges] = reward[1:] + discount[1:] * value[1:]
    self._select(path, count)

  def _add_nodes(
    self, logits: np.ndarray, value: np.ndarray, state: np.ndarray
  ) -> None:
    """Stores the network's outputs for the next node of each tree."""
    i = self._expanded
    self._expanded += 1
    self._logits.reshape(*self._shape, -1)[:, i] = logits
    prior = np.maximum(numpy_ops.softmax(logits), _MIN_PRIOR)
    self._prior.reshape(*self._shape, -1)[:, i] = prior
    self._raw_value.reshape(self._shape)[:, i] = value
    self.states.reshape(*self._shape, *state.shape[1:])[:, i] = state

  def _select(self, path: np.ndarray, total: np.ndarray) -> None:
    """Selects the actions of nodes [D, B], whose visits are `total` [D, B]."""
    visits = self._visits.take(path, axis=0)  # [D, B, A]
    q = self._q.take(path, axis=0)
    visited = visits > 0.0
    weights = self._prior.take(path, axis=0)
    weights *= visited
    divisor = np.maximum(weights.sum(axis=2), _MIN_PRIOR)
    weights /= divisor[..., None]
    weights *= q
    mixed = total * weights.sum(axis=2)
    mixed += self._raw_value.take(path)
    all_visits = total + 1.0
    mixed /= all_visits
    completed = np.where(visited, q, mixed[..., None])
    low = completed.min(axis=2)
    scale = visits.max(axis=2)
    scale += _VISIT_OFFSET
    scale *= np.float32(self._settings.value_scale)
    scale /= np.maximum(completed.max(axis=2) - low, _MIN_RANGE)
    completed -= low[..., None]
    completed *= scale[..., None]
    self.scaled_q = completed[0]
    policy = numpy_ops.softmax(self._logits.take(path, axis=0) + completed)
    visits /= all_visits[..., None]
    policy -= visits
    self._selected[path] = path * self._actions + policy.argmax(axis=2)


@functools.cache
def _halve(max_considered: int, simulations: int) -> np.ndarray:
  """Returns the visits so far of simulations' actions, by number considered."""
  table = [list(range(simulations))] * min(2, max_considered + 1)
  for considered in range(2, max_considered + 1):
    phases = math.ceil(math.log2(considered))
    visits, remaining = 0, considered
    schedule = []
    while len(schedule) < simulations:
      for _ in range(max(1, simulations // (phases * remaining))):
        schedule += [visits] * remaining
        visits += 1
      remaining = max(2, remaining // 2)
    table.append(schedule[:simulations])
  return np.array(table, np.float32)
