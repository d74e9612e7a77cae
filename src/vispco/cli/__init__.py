"""The command line: a thin layer over the public functions, which imports torch only when a command needs it."""
