"""Variables: published by the trainer, shared on each machine, versioned."""
