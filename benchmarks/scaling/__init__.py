"""Speed and memory of runs with more and more workers."""
