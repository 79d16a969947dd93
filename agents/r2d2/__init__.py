"""R2D2: recurrent replay of sequences."""
