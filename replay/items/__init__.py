"""Items: what a worker makes of its steps, packs and writes to a table."""
