"""Searches after other work: what one would try instead of VisPCO, on one calibration set and one bill.

found = vispco.rivals.get("random-40").search(evaluator, budget=0.5)
table = vispco.rivals.compare(calibration, test, 0.5, ["vtw", "fitprune", "g-search", "random-40"])
"""

from vispco.rivals.calibration import Calibration
from vispco.rivals.candidate import Entrant, Found
from vispco.rivals.compare import compare
from vispco.rivals.comparison import Comparison, Row
from vispco.rivals.comparison_views import SearchCostInfo, Table, comparison_table, narrow_tables, search_cost_info
from vispco.rivals.registry import BASELINES, get
from vispco.rivals.rival import Baseline
from vispco.rivals.sample_sizes import Sizes
from vispco.rivals.vispco_search import OWN, Own

__all__ = [
    "BASELINES",
    "OWN",
    "Baseline",
    "Calibration",
    "Comparison",
    "Entrant",
    "Found",
    "Own",
    "Row",
    "SearchCostInfo",
    "Sizes",
    "Table",
    "compare",
    "comparison_table",
    "get",
    "narrow_tables",
    "search_cost_info",
]
