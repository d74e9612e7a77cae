"""Scorers, by name. To add one: its file here, one row in `tests/methods/test_scorers.py`, one line in the README."""

from vispco.scorers.aim import AIM, AimMerge
from vispco.scorers.allocation import ALLOCATIONS, check_allocation
from vispco.scorers.base import SCORERS, Merge, Scorer, Selection, VisionNeeds, get, register, top_tokens
from vispco.scorers.btp import BTP
from vispco.scorers.cdpruner import CDPruner
from vispco.scorers.chain import Chain, ChainLike, check_compensation, with_options
from vispco.scorers.context import ScoringContext, VisionRecord
from vispco.scorers.dart import DART
from vispco.scorers.divprune import DivPrune
from vispco.scorers.fastv import FastV
from vispco.scorers.fitprune import FitPrune
from vispco.scorers.himap import HiMAP
from vispco.scorers.hiprune import HiPrune
from vispco.scorers.learned import MADTP, ATPLLaVA, DynamicLLaVA, LearnedScorer
from vispco.scorers.mixture import MixedChain
from vispco.scorers.priortr import PriorTR
from vispco.scorers.prumerge import PruMerge
from vispco.scorers.pyramiddrop import PyramidDrop
from vispco.scorers.random import Random
from vispco.scorers.scope import Scope
from vispco.scorers.sparsevlm import SparseVLM
from vispco.scorers.topv import TopV
from vispco.scorers.uniform import Uniform
from vispco.scorers.v2drop import V2Drop
from vispco.scorers.visionzip import VisionZip
from vispco.scorers.vispruner import VisPruner
from vispco.scorers.vscan import VScan, VScanInside
from vispco.scorers.vtw import Withdrawal

__all__ = [
    "AIM",
    "ALLOCATIONS",
    "BTP",
    "DART",
    "MADTP",
    "SCORERS",
    "ATPLLaVA",
    "AimMerge",
    "CDPruner",
    "Chain",
    "ChainLike",
    "DivPrune",
    "DynamicLLaVA",
    "FastV",
    "FitPrune",
    "HiMAP",
    "HiPrune",
    "LearnedScorer",
    "Merge",
    "MixedChain",
    "PriorTR",
    "PruMerge",
    "PyramidDrop",
    "Random",
    "Scope",
    "Scorer",
    "ScoringContext",
    "Selection",
    "SparseVLM",
    "TopV",
    "Uniform",
    "V2Drop",
    "VScan",
    "VScanInside",
    "VisPruner",
    "VisionNeeds",
    "VisionRecord",
    "VisionZip",
    "Withdrawal",
    "check_allocation",
    "check_compensation",
    "get",
    "register",
    "top_tokens",
    "with_options",
]
