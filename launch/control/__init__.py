"""Control: decides for a run's nodes when to run, pause and stop."""
