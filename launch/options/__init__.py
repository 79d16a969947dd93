"""The commands' flags."""
