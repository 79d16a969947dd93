"""Options: the flags of `slipway`'s commands, and overrides of config fields."""
