"""`SampleSizes`: token numbers of samples, the cost of schedules on them, and fitting schedules to a budget."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from vispco import cost as costs
from vispco.core.errors import BudgetFloorError, InvalidInputError
from vispco.core.schedule import Schedule
from vispco.cost import Cost, Workload, clamp_budget, snap
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under


@dataclass(frozen=True, eq=False)
class SampleSizes:
    """Text, visual and answer tokens of S samples (int64 [S] each, in the evaluator's order), and the cost.

    A budget is a fraction of the FLOPs of each sample's unpruned prompt. The bill of a search includes the answers.
    chain: who chooses the tokens, which is part of the cost. num_instruction: text tokens that it may read, [S].
    """

    num_text: Tensor
    num_visual: Tensor
    num_answer: Tensor
    cost: Cost
    chain: Chain = field(default_factory=lambda: Chain.of("fastv"))
    num_instruction: Tensor | None = None

    @classmethod
    def of(cls, evaluator: Any, cost: str = "exact") -> SampleSizes:
        """Return `evaluator.sizes`, or the sizes of the samples of a `TaskEvaluator`.

        The samples are encoded in batches of the evaluator. The vision tower has therefore run before the first search.
        """
        known = getattr(evaluator, "sizes", None)
        if isinstance(known, SampleSizes):
            return known
        table = torch.zeros(4, len(evaluator.samples), dtype=torch.int64)
        for batch in evaluator.batches:
            encoded = evaluator.store.encode(batch.samples, answers=True)
            columns = (encoded.num_text, encoded.num_visual, encoded.answer_lengths, encoded.num_instruction)
            table[:, list(batch.rows)] = torch.tensor(columns)
        text, visual, answer, asked = table
        return cls(text, visual, answer, costs.get(cost, evaluator.model.config), evaluator.scorer, asked)

    def __len__(self) -> int:
        return len(self.num_text)

    @property
    def num_layers(self) -> int:
        return self.cost.num_layers

    @property
    def earliest_layer(self) -> int:
        """The first layer that the chain may prune."""
        return self.chain.earliest_layer

    def first(self, n: int) -> SampleSizes:
        asked = None if self.num_instruction is None else self.num_instruction[:n]
        own = {name: getattr(self, name)[:n] for name in ("num_text", "num_visual", "num_answer")}
        return replace(self, num_instruction=asked, **own)

    def under(self, chain: Chain) -> SampleSizes:
        """Return the same samples, pruned by another chain of scorers."""
        return replace(self, chain=chain)

    @property
    def workload(self) -> Workload:
        """The prompts of all samples."""
        return workload_under(self.chain, self.cost.dimensions, self.num_text, self.num_visual, self.num_instruction)

    @property
    def typical(self) -> Workload:
        """One sample with the median numbers of tokens: [1]."""
        return self.workload.each(lambda numbers: numbers.median()[None])

    @property
    def with_answers(self) -> Workload:
        """The prompts and their answers, as a search runs them."""
        return replace(self.workload, num_text=self.num_text + self.num_answer)

    def fractions(self, counts: Tensor) -> Tensor:
        """Return the price of each prompt with these counts [S, L], relative to the unpruned model: [S], float64."""
        return self.cost.fraction_of_counts(counts, self.workload)

    def fraction(self, schedule: Schedule) -> float:
        """Return the mean fraction of the FLOPs over the samples, as in `Evaluation.fraction`."""
        return float(self.fractions(schedule.counts(self.num_visual.tolist())).mean())

    def total_flops(self, schedule: Schedule) -> float:
        """Return the FLOPs of one pass over all samples with their answers, generated or given."""
        counts = schedule.counts(self.num_visual.tolist())
        return float(self.cost.bill(counts, self.with_answers).sum())

    def check_budget(self, budget: float) -> None:
        """Refuse a budget outside of (0, 1], and one that even a schedule without visual tokens exceeds."""
        if not 0.0 < budget <= 1.0:
            raise InvalidInputError(
                f"The budget {budget:g} was given. It is a fraction of the unpruned language model's FLOPs, in (0, 1]."
            )
        floor = self.fraction(Schedule.withdraw(self.earliest_layer, self.num_layers))
        if budget < floor:
            raise BudgetFloorError(
                f"The budget {budget:g} is below the floor: without any visual token"
                f"{f' from layer {self.earliest_layer} on' if self.earliest_layer else ''}, this model still costs {floor:.4g} of the unpruned one "
                f"({self.cost.name} {self.cost.unit}). Give a budget above it."
            )

    def fit(self, schedule: Schedule, budget: float, *, lift: bool = True) -> Schedule:
        """Return a curve [L] as whole tokens within the budget on **every** sample: a row each, one row if all are equal.

        lift: also raise the curve where a sample has budget left. Otherwise it is only cut where it is too expensive. A
        sample whose floor is above the budget gets its floor (`BudgetWarning`).
        """
        asked = torch.full((len(self),), budget, dtype=torch.float64)
        limits = clamp_budget(asked, self.workload, self.cost)
        curve = schedule.tensor().expand(len(self), -1)
        counts = snap(curve, limits, self.workload, self.cost, fill=False)
        if not lift:
            uncut = schedule.counts(self.num_visual.tolist())
            counts = torch.where((self.fractions(uncut) <= limits)[:, None], uncut, counts)
        if bool((counts == counts[0]).all()) and bool((self.num_visual == self.num_visual[0]).all()):
            return Schedule.from_counts(counts[0], int(self.num_visual[0]))
        return Schedule.from_counts(counts, self.num_visual.tolist())
