"""What a run will take, from a model's config alone: visual tokens, memory, FLOPs, hours."""

from vispco.estimates.memory import Memory, memory
from vispco.estimates.pictures import visual_tokens
from vispco.estimates.work import Machine, Work, evaluation, gradient_search, grid, static_search

__all__ = [
    "Machine",
    "Memory",
    "Work",
    "evaluation",
    "gradient_search",
    "grid",
    "memory",
    "static_search",
    "visual_tokens",
]
