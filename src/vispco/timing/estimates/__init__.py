"""What a run will take, from a model's config alone: visual tokens, memory, FLOPs, hours."""

from vispco.timing.estimates.describe import DescribeSettings, describe
from vispco.timing.estimates.model_size import ParameterCount, count_parameters, visual_tokens
from vispco.timing.estimates.work import (
    Machine,
    WorkEstimate,
    estimate_evaluation,
    estimate_gradient_search,
    estimate_grid,
    estimate_static_search,
)

__all__ = [
    "DescribeSettings",
    "Machine",
    "ParameterCount",
    "WorkEstimate",
    "count_parameters",
    "describe",
    "estimate_evaluation",
    "estimate_gradient_search",
    "estimate_grid",
    "estimate_static_search",
    "visual_tokens",
]
