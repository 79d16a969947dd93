"""What the control node knows, and what it asks of the nodes."""
