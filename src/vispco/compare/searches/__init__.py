"""Rivals: other people's searches, on the same calibration set and bill as VisPCO's own.

result = vispco.compare.searches.get("random-40").search(evaluator, budget=0.5)
table = vispco.compare.searches.compare(calibration, test, 0.5, ["vtw", "fitprune", "g-search", "random-40"])
"""

from vispco.compare.searches import (  # noqa: F401  # they register
    autoprune,
    bayesian,
    btp_layers,
    dop,
    downsample,
    evolution,
    fitprune_search,
    g_search,
    paper_baselines,
    scaled,
    vispco_search,
    vtw_search,
)
from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.compare_searches import ComparedBudgets, compare
from vispco.compare.searches.comparison_views import (
    comparison_table,
    equal_terms_table,
    narrow_tables,
    search_cost_info,
)
from vispco.compare.searches.frontier_run import run_search
from vispco.compare.searches.rival import AnytimeRival, Choice, Rival, RivalResult
from vispco.compare.searches.search_comparison import Comparison
from vispco.compare.searches.search_registry import SEARCHES, get, get_searches, search_names
from vispco.evaluation.sample_sizes import SampleSizes

__all__ = [
    "SEARCHES",
    "AnytimeRival",
    "Calibration",
    "Choice",
    "ComparedBudgets",
    "Comparison",
    "Rival",
    "RivalResult",
    "SampleSizes",
    "compare",
    "comparison_table",
    "equal_terms_table",
    "get",
    "get_searches",
    "narrow_tables",
    "run_search",
    "search_cost_info",
    "search_names",
]
