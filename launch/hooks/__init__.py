"""Code that is called while a run trains: the user's, and ready hooks."""
