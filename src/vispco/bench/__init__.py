"""The paper's hardware table for this machine: how long the first token takes, unpruned and pruned, and where it goes."""

from vispco.bench.contender import Contender
from vispco.bench.race import Settings, race
from vispco.bench.row import BenchRow, summary

__all__ = ["BenchRow", "Contender", "Settings", "race", "summary"]
