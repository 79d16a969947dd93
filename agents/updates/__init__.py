"""Classes that run a learner's updates, one per source of batches.

Sources are replay servers, queues, an in-process table, and recorded data.
"""
