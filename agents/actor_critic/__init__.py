"""DDPG, TD3, SAC and D4PG: actors and critics on a replay table."""
