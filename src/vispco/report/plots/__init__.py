"""Figures. Each is two functions: `..._info` computes what is shown, `draw_...` draws it to a PNG, SVG or PDF file."""

from vispco.report.plots.areas import areas_info, draw_areas
from vispco.report.plots.figures import figures
from vispco.report.plots.frontiers import configurations_info, draw_configurations, draw_frontiers, frontiers_info
from vispco.report.plots.methods import draw_methods, methods_info
from vispco.report.plots.retention import draw_retention, retention_by_budget_info, retention_by_kernel_info
from vispco.report.plots.search_cost import draw_search_cost, search_cost_info
from vispco.report.plots.survivors import draw_survivors, survivors_info

__all__ = [
    "areas_info",
    "configurations_info",
    "draw_areas",
    "draw_configurations",
    "draw_frontiers",
    "draw_methods",
    "draw_retention",
    "draw_search_cost",
    "draw_survivors",
    "figures",
    "frontiers_info",
    "methods_info",
    "retention_by_budget_info",
    "retention_by_kernel_info",
    "search_cost_info",
    "survivors_info",
]
