"""Scorers, by name. To add one: its file here, one row in `tests/test_scorers.py`, one line in the README."""

from vispco.scorers.base import SCORERS, Merge, Scorer, Selection, VisionNeeds, get, register, top_tokens
from vispco.scorers.cdpruner import CDPruner
from vispco.scorers.chain import Chain, ChainLike
from vispco.scorers.context import ScoringContext, VisionRecord
from vispco.scorers.divprune import DivPrune
from vispco.scorers.fastv import FastV
from vispco.scorers.fitprune import FitPrune
from vispco.scorers.random import Random
from vispco.scorers.sparsevlm import SparseVLM
from vispco.scorers.uniform import Uniform
from vispco.scorers.v2drop import V2Drop

__all__ = [
    "SCORERS",
    "CDPruner",
    "Chain",
    "ChainLike",
    "DivPrune",
    "FastV",
    "FitPrune",
    "Merge",
    "Random",
    "Scorer",
    "ScoringContext",
    "Selection",
    "SparseVLM",
    "Uniform",
    "V2Drop",
    "VisionNeeds",
    "VisionRecord",
    "get",
    "register",
    "top_tokens",
]
