"""A machine's node processes: started, watched, started again."""
