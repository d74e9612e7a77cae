"""Kernel shapes as a search tries them: the initial ones, the pool of a budget, and their ranking by measured KL."""
