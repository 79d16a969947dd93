"""Trains an algorithm of d3rlpy on recorded episodes, for `benchmarks.offline`.

Prints one line of JSON: updates per second, and the mean return.
"""

# pyright: reportMissingImports=false

import argparse
import json
import logging
import pathlib
import time

import d3rlpy
import gymnasium
import h5py
import numpy as np
import structlog
import torch
from d3rlpy import algos

_EPISODES = 50
_PLAY_SEED = 2_000_000


def main() -> None:
  parser = argparse.ArgumentParser()
  for name in ("algorithm", "data", "environment"):
    parser.add_argument(f"--{name}", required=True)
  for name in ("batch_size", "seed", "updates", "warm_up"):
    parser.add_argument(f"--{name}", type=int, required=True)
  parser.add_argument("--layers", type=int, nargs="+", required=True)
  parser.add_argument("--plays", action="store_true")
  args = parser.parse_args()
  torch.set_num_threads(1)
  structlog.configure(
    wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
  )
  d3rlpy.seed(args.seed)
  space = gymnasium.make(args.environment).action_space
  is_discrete = isinstance(space, gymnasium.spaces.Discrete)
  # d3rlpy's policies have actions in [-1, 1].
  scale = 1 if is_discrete else space.high
  kind = "DISCRETE" if is_discrete else "CONTINUOUS"
  data = d3rlpy.dataset.ReplayBuffer(
    d3rlpy.dataset.InfiniteBuffer(),
    episodes=_read_episodes(pathlib.Path(args.data), scale),
    action_space=d3rlpy.constants.ActionSpace[kind],
  )
  algorithm = _make_config(
    args.algorithm, is_discrete, args.layers, args.batch_size
  ).create(device="cpu:0")

  def fit(updates: int) -> None:
    algorithm.fit(
      data,
      n_steps=updates,
      n_steps_per_epoch=updates,
      logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
      show_progress=False,
      save_interval=2,  # no snapshot
    )

  fit(args.warm_up)
  began_s, began_cpu_s = time.monotonic(), time.process_time()
  fit(args.updates - args.warm_up)
  wall_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
  found = {"wall_s": wall_s, "cpu_s": cpu_s, "mean_return": None}
  if args.plays:
    found["mean_return"] = _play(algorithm, args.environment, scale)
  print(json.dumps(found))


def _read_episodes(folder: pathlib.Path, scale):
  """Returns the episodes of all Minari datasets in a folder."""
  episodes = []
  for path in sorted(folder.glob("**/main_data.hdf5")):
    with h5py.File(path) as file:
      for group in file.values():
        actions = np.asarray(group["actions"])
        shape = (len(actions), -1)  # also of discrete actions
        episodes.append(
          d3rlpy.dataset.Episode(
            np.asarray(group["observations"], np.float32)[:-1],
            (actions.reshape(shape) / scale).astype(actions.dtype),
            np.asarray(group["rewards"], np.float32)[:, None],
            bool(group["terminations"][-1]),
          )
        )
  return episodes


def _make_config(name: str, is_discrete: bool, layers, batch_size: int):
  """Returns the library's own values, with our network and batch."""

  def encoder(**kwargs):
    return d3rlpy.models.VectorEncoderFactory(hidden_units=layers, **kwargs)

  scaler = d3rlpy.preprocessing.StandardObservationScaler()
  common = {"batch_size": batch_size, "observation_scaler": scaler}
  if is_discrete:
    make = {"bc": algos.DiscreteBCConfig, "cql": algos.DiscreteCQLConfig,
            "bcq": algos.DiscreteBCQConfig}[name]  # fmt: skip
    return make(encoder_factory=encoder(), **common)
  if name == "bc":
    return algos.BCConfig(
      encoder_factory=encoder(), policy_type="stochastic", **common
    )
  make, more = {
    "iql": (algos.IQLConfig, {"value_encoder_factory": encoder()}),
    # Two critics and a moving average, as ours.
    "crr": (algos.CRRConfig, {"n_critics": 2, "target_update_type": "soft"}),
    "td3_bc": (algos.TD3PlusBCConfig, {}),
    "rebrac": (
      algos.ReBRACConfig,
      {"critic_encoder_factory": encoder(use_layer_norm=True)},
    ),
    "cql_sac": (algos.CQLConfig, {}),
  }[name]
  return make(
    **{
      "actor_encoder_factory": encoder(),
      "critic_encoder_factory": encoder(),
      **common,
      **more,
    }
  )


def _play(algorithm, environment: str, scale) -> float:
  """Returns the mean return of episodes of the algorithm's policy."""
  environments = gymnasium.make_vec(environment, _EPISODES)
  # The episodes begin as those that Slipway plays: the seed is that of its
  # environments/factory.py. Other starts give other means, by 100 on Pendulum.
  seed = int(np.random.SeedSequence(_PLAY_SEED).generate_state(1)[0] >> 2)
  observation, _ = environments.reset(seed=seed)
  returns, alive = np.zeros(_EPISODES), np.ones(_EPISODES, bool)
  while alive.any():
    action = algorithm.predict(observation.astype(np.float32))
    if action.ndim > 1:
      action = action * scale
    observation, reward, terminated, truncated, _ = environments.step(action)
    returns += alive * reward
    alive &= ~(terminated | truncated)
  return float(returns.mean())


if __name__ == "__main__":
  main()
