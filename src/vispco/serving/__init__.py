"""Pruned models at work: one question (`ask`), a web page (`play`), an endpoint (`server`), harnesses of others."""
