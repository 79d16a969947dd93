"""The numbers: one file per algorithm, presets by name."""
