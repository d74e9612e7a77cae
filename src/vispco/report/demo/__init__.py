"""All of it on one model: search, a small sweep beside it, times to first token, and a page; `run.run` continues one."""
