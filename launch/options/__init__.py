"""Options: the flags of the commands, and overrides of config fields."""
