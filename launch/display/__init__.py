"""Display: shows a run's status on a terminal."""
