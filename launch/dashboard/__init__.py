"""Dashboard: a local page that shows runs, active or ended."""
