"""Benchmarks that are known by name: a file registers one or several."""

from vispco.metrics.benchmarks import paper

__all__ = ["paper"]
