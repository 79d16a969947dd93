"""Items: formed from environment steps, packed to bytes, written to a table."""
