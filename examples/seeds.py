"""Trains with several seeds, and compares their returns.

The measure is the mean of a run's last evaluations, since its best evaluation
depends more on luck.
"""

import statistics
import sys

import slipway

# Seeds of the runs: the arguments of the command, or 1, 2 and 3.
SEEDS = [int(seed) for seed in sys.argv[1:]] or [1, 2, 3]

last = []
for seed in SEEDS:
  config = slipway.load_config("ppo:cartpole")
  config.seed = seed
  config.limits.target_return = float("inf")
  config.limits.environment_steps = 30_000
  result = slipway.train(config, name=f"ppo-{seed}", overwrite=True)
  returns = result.curves["eval_return"][-5:]
  last.append(float(returns.mean()))
  print(f"seed {seed}: mean of the last {len(returns)}: {last[-1]:.1f}")
print(f"median of {len(SEEDS)} seeds: {statistics.median(last):.1f}")
