"""Searches trees with DeepMind's mctx, for `tests/agents/muzero`.

Makes the file with the cases of the tests again; from the project's folder:

  python3.11 -m venv .cache/peers/mctx
  .cache/peers/mctx/bin/pip install -r benchmarks/peers/mctx/requirements.txt
  .cache/peers/mctx/bin/python benchmarks/peers/mctx/program.py \
    tests/agents/muzero/mctx_cases.npz

A model is a table of random transitions between states. The file has, per
number of actions A, the tables of the model, and stacked over cases the inputs
and results of the searches.
"""
# pyright: reportMissingImports=false

import itertools
import sys
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp
import mctx
import numpy as np

_BATCH, _STATES = 6, 64
_ACTIONS = (2, 4, 9)
_SIMULATIONS = (4, 16, 50)
_CONSIDERED = (2, 4, 16)
# Seed, discount, scale of the Gumbel noise.
_SAMPLES = ((0, 0.97, 1.0), (1, 1.0, 1.0), (2, 0.5, 0.0))


def main() -> None:
  """Writes all cases to the file that the command line names."""
  arrays = {}
  for actions in _ACTIONS:
    model = _make_model(actions)
    arrays |= {f"{actions}/{name}": x for name, x in model.items()}
    cases = []
    for simulations, considered in itertools.product(_SIMULATIONS, _CONSIDERED):
      search = _compile(model, simulations, considered)
      for masked, sample in itertools.product((False, True), _SAMPLES):
        cases.append(_search(search, actions, masked, *sample))
        cases[-1]["settings"] = np.array([simulations, considered, sample[1]])
    for name in cases[0]:
      arrays[f"{actions}/{name}"] = np.stack([x[name] for x in cases])
  np.savez_compressed(sys.argv[1], **arrays)


def _make_model(actions: int) -> dict[str, np.ndarray]:
  """Returns tables of next states, rewards and ends [S, A], and of policies."""
  random = np.random.default_rng(actions)
  size = (_STATES, actions)
  return {
    "model_state": random.integers(_STATES, size=size, dtype=np.int32),
    "model_reward": random.standard_normal(size, np.float32),
    "model_logits": 2.0 * random.standard_normal(size, np.float32),
    "model_value": random.standard_normal(_STATES, np.float32),
    # Probabilities of no end, a fifth of which are 0.
    "model_continues": np.maximum(
      0.0, random.uniform(-0.25, 1.0, size).astype(np.float32)
    ),
  }


def _compile(
  model: dict[str, np.ndarray], simulations: int, considered: int
) -> Callable[..., typing.Any]:
  """Returns a compiled search of a model, as called in `_search`."""
  table = {name: jnp.asarray(x) for name, x in model.items()}

  def step(discount, rng, action, state):
    next_state = table["model_state"][state, action]
    output = mctx.RecurrentFnOutput(
      reward=table["model_reward"][state, action],
      discount=discount * table["model_continues"][state, action],
      prior_logits=table["model_logits"][next_state],
      value=table["model_value"][next_state],
    )
    return output, next_state

  @jax.jit
  def search(seed, state, allowed, discount, noise):
    root = mctx.RootFnOutput(
      prior_logits=table["model_logits"][state],
      value=table["model_value"][state],
      embedding=state,
    )
    return mctx.gumbel_muzero_policy(
      params=discount,
      rng_key=jax.random.PRNGKey(seed),
      root=root,
      recurrent_fn=step,
      num_simulations=simulations,
      invalid_actions=1.0 - allowed,
      max_num_considered_actions=considered,
      gumbel_scale=noise,
    )

  return search


def _search(
  search: Callable[..., typing.Any],
  actions: int,
  masked: bool,
  seed: int,
  discount: float,
  noise: float,
) -> dict[str, np.ndarray]:
  """Returns inputs and results of a search, by name."""
  random = np.random.default_rng((seed, actions, masked))
  state = random.integers(_STATES, size=_BATCH, dtype=np.int32)
  allowed = np.ones((_BATCH, actions), bool)
  if masked:
    allowed = random.random(allowed.shape) < 0.6
    allowed[np.arange(_BATCH), random.integers(actions, size=_BATCH)] = True
  output = search(
    seed,
    state,
    allowed.astype(np.float32),
    np.float32(discount),
    np.float32(noise),
  )
  summary = output.search_tree.summary()
  return {
    "state": state,
    "allowed": allowed,
    "gumbel": np.asarray(output.search_tree.extra_data.root_gumbel),
    "action": np.asarray(output.action),
    "policy": np.asarray(output.action_weights),
    "visits": np.asarray(summary.visit_counts).astype(np.int32),
  }


if __name__ == "__main__":
  main()
