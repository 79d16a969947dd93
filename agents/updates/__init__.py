"""Updates: a learner's steps on batches of each kind of source."""
