"""`SampleSizes`: token numbers of samples, the cost of schedules on them, and fitting schedules to a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vispco import cost as costs
from vispco.cost import CostModel, Site, clamp_budget, snap
from vispco.errors import InvalidInputError
from vispco.schedule import Schedule


@dataclass(frozen=True, eq=False)
class SampleSizes:
    """Text, visual and answer tokens of S samples (int64 [S] each, in the evaluator's order), and the cost model.

    A budget is a fraction of the FLOPs of each sample's unpruned prompt. The bill of a search includes the answers.
    site, first_full: where tokens leave with this scorer, and whether layer 0 must process all of them.
    """

    num_text: Tensor
    num_visual: Tensor
    num_answer: Tensor
    cost: CostModel
    site: Site = "entry"
    first_full: bool = True

    @classmethod
    def of(cls, evaluator: Any, cost: str = "exact") -> SampleSizes:
        """Return `evaluator.sizes`, or the sizes of the samples of a `TaskEvaluator`.

        The samples are encoded in batches of the evaluator. The vision tower has therefore run before the first search.
        """
        known = getattr(evaluator, "sizes", None)
        if isinstance(known, SampleSizes):
            return known
        table = torch.zeros(3, len(evaluator.samples), dtype=torch.int64)
        for batch in evaluator.batches:
            encoded = evaluator.store.encode(batch.samples, answers=True)
            columns = (encoded.num_text, encoded.num_visual, encoded.answer_lengths)
            table[:, list(batch.rows)] = torch.tensor(columns)
        scorer = evaluator.scorer
        model = costs.get(cost, evaluator.model.config)
        return cls(table[0], table[1], table[2], model, scorer.site, scorer.needs_attention)

    def __len__(self) -> int:
        return len(self.num_text)

    @property
    def num_layers(self) -> int:
        return self.cost.num_layers

    def first(self, n: int) -> SampleSizes:
        return replace(self, num_text=self.num_text[:n], num_visual=self.num_visual[:n], num_answer=self.num_answer[:n])

    @property
    def typical(self) -> tuple[Tensor, Tensor]:
        """The median numbers of text and visual tokens: [1] each."""
        return self.num_text.median()[None], self.num_visual.median()[None]

    def fractions(self, counts: Tensor) -> Tensor:
        """Return the FLOPs of each prompt with these counts [S, L], relative to the unpruned model: [S], float64."""
        spent = self.cost.flops_of_counts(counts, self.num_text, site=self.site).double()
        return spent / self.cost.full(self.num_text, self.num_visual).double()

    def fraction(self, schedule: Schedule) -> float:
        """Return the mean fraction of the FLOPs over the samples, as in `Evaluation.fraction`."""
        return float(self.fractions(schedule.counts(self.num_visual.tolist())).mean())

    def total_flops(self, schedule: Schedule) -> float:
        """Return the FLOPs of one pass over all samples with their answers, generated or given."""
        counts = schedule.counts(self.num_visual.tolist())
        return float(self.cost.flops_of_counts(counts, self.num_text + self.num_answer, site=self.site).sum())

    def check_budget(self, budget: float) -> None:
        """Refuse a budget outside of (0, 1], and one that even a schedule without visual tokens exceeds."""
        if not 0.0 < budget <= 1.0:
            raise InvalidInputError(
                f"The budget {budget:g} was given. It is a fraction of the unpruned language model's FLOPs, in (0, 1]."
            )
        floor = self.fraction(Schedule.withdraw(int(self.first_full), self.num_layers))
        if budget < floor:
            raise InvalidInputError(
                f"The budget {budget:g} is below the floor: without any visual token"
                f"{' from layer 1 on' if self.first_full else ''}, this model still costs {floor:.4g} of the unpruned one "
                f"({self.cost.name} FLOPs). Give a budget above it."
            )

    def fit(self, schedule: Schedule, budget: float, *, lift: bool = True) -> Schedule:
        """Return a curve [L] as whole tokens within the budget on **every** sample: a row each, one row if all are equal.

        lift: also raise the curve where a sample has budget left. Otherwise it is only cut where it is too expensive. A
        sample whose floor is above the budget gets its floor (`BudgetWarning`).
        """
        asked = torch.full((len(self),), budget, dtype=torch.float64)
        sizes = (self.num_text, self.num_visual, self.cost)
        limits = clamp_budget(asked, *sizes, site=self.site, first_full=self.first_full)
        curve = schedule.tensor().expand(len(self), -1)
        counts = snap(curve, limits, *sizes, site=self.site, first_full=self.first_full, fill=False)
        if not lift:
            uncut = schedule.counts(self.num_visual.tolist())
            counts = torch.where((self.fractions(uncut) <= limits)[:, None], uncut, counts)
        if bool((counts == counts[0]).all()) and bool((self.num_visual == self.num_visual[0]).all()):
            return Schedule.from_counts(counts[0], int(self.num_visual[0]))
        return Schedule.from_counts(counts, self.num_visual.tolist())
