"""The joint search: which chain of scorers, and which schedule, for each budget and each input."""
