"""SAC: soft actor-critic on a replay table."""
