"""All of it on one model: a search, a small sweep, times to first token, and a page; `DemoJob.run` continues one."""
