"""Rivals: other people's searches, on the same calibration set and bill as VisPCO's own.

result = vispco.rivals.get("random-40").search(evaluator, budget=0.5)
table = vispco.rivals.compare(calibration, test, 0.5, ["vtw", "fitprune", "g-search", "random-40"])
"""

from vispco.evaluation.sample_sizes import SampleSizes
from vispco.rivals import (  # noqa: F401  # they register
    autoprune,
    btp_layers,
    downsample,
    evolution,
    fitprune,
    g_search,
    p_sigmoid_bo,
    random_n,
    scaled,
    single_grid,
    tpe_joint,
    vflowopt,
    vtw,
)
from vispco.rivals.calibration import Calibration
from vispco.rivals.candidate import Candidate, PlannerResult, RivalResult
from vispco.rivals.compare import ComparedBudgets, compare
from vispco.rivals.comparison import Comparison, Row
from vispco.rivals.comparison_views import (
    ComparisonTable,
    SearchCostInfo,
    comparison_table,
    equal_terms_table,
    narrow_tables,
    search_cost_info,
)
from vispco.rivals.frontier_run import FrontierRun, Snapshot, run_search
from vispco.rivals.registry import SEARCHES, Search, get, get_searches, search_names
from vispco.rivals.rival import AnytimeRival, Choice, Rival
from vispco.rivals.vispco_search import VispcoSearch

__all__ = [
    "SEARCHES",
    "AnytimeRival",
    "Calibration",
    "Candidate",
    "Choice",
    "ComparedBudgets",
    "Comparison",
    "ComparisonTable",
    "FrontierRun",
    "PlannerResult",
    "Rival",
    "RivalResult",
    "Row",
    "SampleSizes",
    "Search",
    "SearchCostInfo",
    "Snapshot",
    "VispcoSearch",
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
