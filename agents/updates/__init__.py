"""Updates: runs a learner's updates on batches from each kind of source."""
