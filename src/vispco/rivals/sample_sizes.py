"""How large the samples are, and so what a schedule costs on them and how it is brought within a budget on each."""

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
class Sizes:
    """Text, visual and answer tokens of S samples (int64 [S] each, in the evaluator's order), and the cost model.

    A budget is a fraction of each sample's own unpruned prompt. A search is billed for the answers too.
    site, first_full: where the scorer makes tokens leave, and whether layer 0 must see them all.
    """

    num_text: Tensor
    num_visual: Tensor
    num_answer: Tensor
    cost: CostModel
    site: Site = "entry"
    first_full: bool = True

    @classmethod
    def of(cls, evaluator: Any, cost: str = "exact") -> Sizes:
        """The sizes that an evaluator has (`evaluator.sizes`), or those of a `TaskEvaluator`'s samples.

        The samples are encoded in its own batches, so the vision tower has run before any search's clock starts.
        """
        known = getattr(evaluator, "sizes", None)
        if isinstance(known, Sizes):
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

    def first(self, n: int) -> Sizes:
        return replace(self, num_text=self.num_text[:n], num_visual=self.num_visual[:n], num_answer=self.num_answer[:n])

    @property
    def typical(self) -> tuple[Tensor, Tensor]:
        """Median numbers of text and visual tokens: [1] each."""
        return self.num_text.median()[None], self.num_visual.median()[None]

    def fractions(self, counts: Tensor) -> Tensor:
        """Whole tokens [S, L] -> FLOPs of each prompt relative to the unpruned model's: [S], float64."""
        spent = self.cost.flops_of_counts(counts, self.num_text, site=self.site).double()
        return spent / self.cost.full(self.num_text, self.num_visual).double()

    def fraction(self, schedule: Schedule) -> float:
        """The mean over the samples, as `Evaluation.fraction` tells it."""
        return float(self.fractions(schedule.counts(self.num_visual.tolist())).mean())

    def spent(self, schedule: Schedule) -> float:
        """FLOPs of one pass over all samples with their answers; a generated answer is billed like a given one."""
        counts = schedule.counts(self.num_visual.tolist())
        return float(self.cost.flops_of_counts(counts, self.num_text + self.num_answer, site=self.site).sum())

    def check(self, budget: float) -> None:
        """Refuse what is no budget, and one that not even a schedule without visual tokens meets."""
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
        """A curve [L] as whole tokens with F <= budget on **every** sample: one row each, or one row if all are alike.

        lift: also raise the curve where a sample has something left; otherwise it is only cut where it is too dear. A
        sample whose floor lies above the budget gets its floor (`BudgetWarning`).
        """
        asked = torch.full((len(self),), budget, dtype=torch.float64)
        sizes = (self.num_text, self.num_visual, self.cost)
        limits = clamp_budget(asked, *sizes, site=self.site, first_full=self.first_full)
        curve = schedule.tensor().expand(len(self), -1)
        counts = snap(curve, limits, *sizes, site=self.site, first_full=self.first_full, fill=False)
        if not lift:
            own = schedule.counts(self.num_visual.tolist())
            counts = torch.where((self.fractions(own) <= limits)[:, None], own, counts)
        if bool((counts == counts[0]).all()) and bool((self.num_visual == self.num_visual[0]).all()):
            return Schedule.from_counts(counts[0], int(self.num_visual[0]))
        return Schedule.from_counts(counts, self.num_visual.tolist())
