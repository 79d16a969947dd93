"""Policy gradient family: REINFORCE, A2C, PPO, APPO, IMPALA and V-MPO."""
