"""Losses and advantages: pure functions, each for equations of one paper."""
