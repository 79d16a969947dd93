"""Commands: what `slipway COMMAND` does, a module per command."""
