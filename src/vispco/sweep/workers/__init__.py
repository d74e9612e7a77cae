"""Where evaluations run: in this process, in others on this machine, or on a Ray cluster."""
