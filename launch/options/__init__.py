"""Options: the flags of commands."""
