"""Scorers, by name. To add one: its file here, one row in `tests/methods/test_scorers.py`, one line in the README."""

from vispco.scorers.allocation import ALLOCATIONS, check_allocation
from vispco.scorers.base import SCORERS, Merge, Scorer, Selection, VisionNeeds, get, register, top_tokens
from vispco.scorers.chain import Chain, ChainLike, check_compensation, with_options
from vispco.scorers.context import ScoringContext, VisionRecord
from vispco.scorers.mixture import MixedChain

_MODULES = {  # by module: the scorers in it. A module is imported when one of them is asked for
    "aim": ("aim", "aim-merge"),
    "baselines": ("random", "uniform", "vtw"),
    "btp": ("btp",),
    "cdpruner": ("cdpruner",),
    "dart": ("dart",),
    "divprune": ("divprune",),
    "evs": ("evs",),
    "hiprune": ("hiprune",),
    "ipcv": ("ipcv",),
    "layer_ratings": ("fastv", "fitprune", "himap", "knorm", "priortr", "pyramiddrop", "v2drop"),
    "learned.atp_llava": ("atp-llava",),
    "learned.dynamic_llava": ("dynamic-llava",),
    "learned.madtp": ("madtp",),
    "lrcp": ("lrcp",),
    "pixelprune": ("pixelprune",),
    "prumerge": ("prumerge",),
    "scope": ("scope",),
    "sparsevlm": ("sparsevlm",),
    "topv": ("topv",),
    "vidcom2": ("vidcom2",),
    "visionzip": ("visionzip",),
    "vispruner": ("vispruner",),
    "vscan": ("vscan", "vscan-inside"),
}
SCORERS.declare(dict(sorted((name, f"{__name__}.{module}") for module, names in _MODULES.items() for name in names)))

__all__ = [
    "ALLOCATIONS",
    "SCORERS",
    "Chain",
    "ChainLike",
    "Merge",
    "MixedChain",
    "Scorer",
    "ScoringContext",
    "Selection",
    "VisionNeeds",
    "VisionRecord",
    "check_allocation",
    "check_compensation",
    "get",
    "register",
    "top_tokens",
    "with_options",
]
