"""The command `slipway doctor`: examines a machine or a run."""
