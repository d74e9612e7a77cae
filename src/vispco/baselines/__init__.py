"""Searches after other work: what one would try instead of VisPCO, on one calibration set and one bill.

found = vispco.baselines.get("random-40").search(evaluator, budget=0.5)
table = vispco.baselines.compare(calibration, test, 0.5, ["vtw", "fitprune", "g-search", "random-40"])
"""

from vispco.baselines.baseline import Baseline
from vispco.baselines.calibration import Calibration
from vispco.baselines.compare import compare
from vispco.baselines.comparison import Comparison, Row
from vispco.baselines.entrant import Entrant
from vispco.baselines.found import Found
from vispco.baselines.own import OWN, Own
from vispco.baselines.registry import BASELINES, get
from vispco.baselines.search_cost_info import SearchCostInfo, search_cost_info
from vispco.baselines.sizes import Sizes
from vispco.baselines.table import Table, comparison_table, narrow_tables

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
