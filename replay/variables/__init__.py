"""Variables: versioned network weights, from the trainer to the workers."""
