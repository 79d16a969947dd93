"""Runs algorithms on the Behaviour Suite (Osband et al. 2020), and scores them.

`environment` and `scores` import the suite, which `installing` has put on the
Python path.
"""
