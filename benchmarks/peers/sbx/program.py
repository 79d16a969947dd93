"""SBX's SAC and TD3, in JAX: learn a task.

Variants `actor_critic` and `actor_critic_4` have 1 and 4 environments.
"""
# pyright: reportMissingImports=false

import continuous
import progress
import sb3_models
import sbx
import torch


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(("actor_critic", "actor_critic_4"))
  reporter = progress.Reporter(args.until, args.in_a_row)
  torch.set_num_threads(1)  # its tensors do nothing but carry the samples
  sb3_models.learn(
    sb3_models.make_actor_critic({"sac": sbx.SAC, "td3": sbx.TD3}, args),
    reporter,
    args,
    continuous.TASKS[args.task].evaluation_period,
    sb3_models.make_environments,
  )


if __name__ == "__main__":
  main()
