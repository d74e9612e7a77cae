"""What a search outside of this folder brings to a comparison: whatever the test evaluator takes, and its bill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vispco.search.spent import Spent


@dataclass(frozen=True)
class Entrant:
    """The result of another search, for instance VisPCO's own: whatever the test evaluator takes, and its bill.

    subject: a `Schedule`, or a planner for a `TaskEvaluator`. It has to meet the budget by itself.
    """

    method: str
    subject: Any
    spent: Spent
    seconds: float
    evaluations: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)
