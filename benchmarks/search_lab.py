"""What the parts of `search.py` share: one model, a calibration set that is searched on, a test set that judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from vispco.core.schedule import whole_tokens
from vispco.data import dataset
from vispco.evaluation.frontier import hypervolume
from vispco.models.loading import load
from vispco.search import presets
from vispco.search.batch import Batch
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.objective import Objective
from vispco.search.shape_pool import counts_at_budget

BUDGETS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SCORERS = ("fastv", "sparsevlm", "fitprune")


@dataclass
class Judged:
    """Points on the test set by budget: (fraction of FLOPs, accuracy, KL); and what finding them cost."""

    points: dict[str, list[float]] = field(default_factory=dict)
    flops: float = 0.0  # every pass at its whole price
    shared: float = 0.0  # unpruned first layers taken from the teacher's pass
    seconds: float = 0.0
    violations: int = 0
    calibration_kl: dict[str, float] = field(default_factory=dict)

    @property
    def volume(self) -> float:
        return volume(self.points)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "volume": self.volume}


def volume(points: dict[str, list[float]]) -> float:
    """Hypervolume of (FLOPs, accuracy) against (1, 0)."""
    return hypervolume(np.array([(cost, accuracy) for cost, accuracy, *_ in points.values()]), (1.0, 0.0))


class Lab:
    """Batches are made when a part first asks for them."""

    def __init__(self, name: str, scorer: str, calibration: int, test: int, batch: int = 16) -> None:
        self.model, self.processor = load(name, dtype=torch.float32)
        self.name, self.scorer, self.sizes = name, scorer, {"calibration": calibration, "test": test}
        self.batch = batch  # calibration samples that are measured together
        self.judge = self.objective()
        self.L = self.judge.cost.num_layers

    @cached_property
    def calibration(self) -> list[Batch]:
        """In the order of the data set: tasks alternate, so the first batches are like all."""
        samples = dataset("calibration", limit=self.sizes["calibration"])
        return list(CalibrationBatches(self.model, self.processor, samples, batch_size=self.batch))

    def by_size(self, split: str, per_task: int) -> list[Batch]:
        """Pictures of a size together, so that little is padded: for what is run over all samples."""
        samples = list(dataset(split, limit=per_task))
        samples.sort(key=lambda s: s.area)
        return list(CalibrationBatches(self.model, self.processor, samples, batch_size=32))

    @cached_property
    def test(self) -> list[Batch]:
        return self.by_size("test", self.sizes["test"])

    def objective(self, kernel: str = "single", *, teacher: list[Batch] | None = None, even: bool = False) -> Objective:
        """even: of the relaxation, as projection has it; the Lagrangian keeps the paper's."""
        row = presets.for_model(self.model.config, kernel)
        made = Objective(self.model, self.scorer, relaxation=GaussianMask(row.sigma, row.temperature, even=even))
        for batch in teacher or ():
            made.add_teacher(batch)
        return made

    def tried(self, batches: list[Batch], retention: torch.Tensor, judge: Objective) -> np.ndarray:
        """Fixed retentions [C, L] -> (fraction, accuracy, KL) of each over all samples: [C, 3]."""
        return self.over(
            batches,
            judge,
            lambda b: torch.stack([whole_tokens(row.expand(len(b), -1), b.num_visual) for row in retention.double()]),
        )

    def over(self, batches: list[Batch], judge: Objective, counts_of: Callable[[Batch], torch.Tensor]) -> np.ndarray:
        rows = []
        for number, batch in enumerate(batches):
            counts = counts_of(batch)
            kl, right = kl_and_match(judge, batch, counts)
            workload = judge.workload(batch.sizes)
            rows.append(torch.stack([judge.cost.fraction_of_counts(counts, workload), right, kl]))
            if len(counts) > len(BUDGETS):
                print(f"    batch {number + 1} of {len(batches)}", flush=True)
        return torch.cat(rows, dim=-1).mean(-1).T.numpy()

    def judged(self, kernel: Any, params_of: Callable[[Batch, float], torch.Tensor]) -> Judged:
        """`params_of(batch, budget)` -> [P] or [B, P]; judged on the test set at all budgets."""
        found = Judged()

        def counts_of(batch: Batch) -> torch.Tensor:
            rows = []
            for budget in BUDGETS:
                params = params_of(batch, budget).double()
                rows.append(counts_at_budget(self.judge, batch.sizes, kernel, params[None], budget)[0])
                found.violations += over_budget(self.judge, rows[-1], batch, budget)
            return torch.stack(rows)

        table = self.over(self.test, self.judge, counts_of)
        found.points = {f"{budget:g}": row.tolist() for budget, row in zip(BUDGETS, table, strict=True)}
        return found


def kl_and_match(objective: Objective, batch: Batch, counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """KL [C, B] under counts [C, B, L], and whether greedy decoding writes the reference answer to the letter, bool [C, B]."""
    mask, kl, right = batch.encoded.answer_mask, [], []
    wanted = batch.encoded.labels[:, -mask.shape[1] :]
    for logits in objective.pruned_logits(batch, counts):
        kl.append(objective.divergence(logits, batch))
        right.append(((logits.argmax(-1) == wanted) | ~mask).all(-1))
    return torch.stack(kl), torch.stack(right)


def over_budget(objective: Objective, counts: torch.Tensor, batch: Batch, budget: float) -> int:
    """How many samples spend more than their budget (or than their floor, where that is higher)."""
    cost, workload = objective.cost, objective.workload(batch.sizes)
    allowed = cost.lowest_fraction(workload).clamp_min(budget)
    return int((cost.fraction_of_counts(counts, workload) > allowed).sum())
