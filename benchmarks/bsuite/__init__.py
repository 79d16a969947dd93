"""Runs algorithms on the Behaviour Suite (Osband et al. 2020), and scores them.

`environment` and `scores` import the suite, which `__main__` installs and puts
on the Python path.
"""
