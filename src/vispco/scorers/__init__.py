"""Scorers, by name. To add one: its file here, one row in `tests/test_scorers.py`, one line in the README."""

from vispco.scorers.base import SCORERS, Scorer, ScoringContext, get, register
from vispco.scorers.fastv import FastV
from vispco.scorers.fitprune import FitPrune
from vispco.scorers.random import Random
from vispco.scorers.sparsevlm import SparseVLM

__all__ = ["SCORERS", "FastV", "FitPrune", "Random", "Scorer", "ScoringContext", "SparseVLM", "get", "register"]
