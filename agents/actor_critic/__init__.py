"""DDPG, TD3, SAC, D4PG and MPO: actors and critics on a replay table."""
