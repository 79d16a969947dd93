"""How a status is shown."""
