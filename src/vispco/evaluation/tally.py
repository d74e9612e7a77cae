"""`Tally`: scores by task, FLOPs by cost model, KL and time, added up over the batches of one evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from vispco.cost import Workload
from vispco.evaluation.result import Evaluation, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vispco.cost import Cost
    from vispco.data.files.record import SkipReport
    from vispco.data.files.samples import SampleSet
    from vispco.data.sample import Sample

    Score = Callable[[Sample, str], float]


_PREFILL = "prefill"  # FLOPs of vision tower, projector and language model; the costs are of the language model alone
BRIEF = 3  # skipped items that are named in a result without details: a sweep has hundreds of results


@dataclass(frozen=True, eq=False)
class TowerFlops:
    """What vision tower and projector took for each sample, and what they take for the whole pictures: [B] each.

    num_visual: visual tokens of the whole pictures, [B].
    """

    spent: Tensor
    full: Tensor
    num_visual: Tensor


class Tally:
    """Counts per-sample results of one candidate."""

    def __init__(self, costs: Mapping[str, Cost]) -> None:
        self.costs = costs
        self.scores: dict[str, list[float]] = {}
        self.score_of: dict[str, float] = {}  # by id
        self.predictions: dict[str, str] = {}
        self.flops: dict[str, list[float]] = {name: [] for name in costs}
        self.fractions: dict[str, list[float]] = {name: [] for name in costs}
        self.kl: list[float] = []
        self.seconds = 0.0

    def add_cost(self, counts: Tensor, workload: Workload, tower: TowerFlops | None = None) -> None:
        """Prefill FLOPs of each sample from the tokens that its layers processed: counts [B, L].

        tower: what its vision tower took, where that is known; then the whole prefill is accounted, too. Fractions are of what
        the whole pictures take.
        """
        whole = workload if tower is None else Workload(workload.num_text, tower.num_visual)
        for name, cost in self.costs.items():
            spent, full = cost.bill(counts, workload).double(), cost.full(whole).double()
            self._add(name, spent, full)
            if name == "exact" and tower is not None:
                self._add(_PREFILL, spent + tower.spent, full + tower.full)

    def _add(self, name: str, spent: Tensor, full: Tensor) -> None:
        self.flops.setdefault(name, []).extend(spent.tolist())
        self.fractions.setdefault(name, []).extend((spent / full).tolist())

    def add_answers(self, samples: Sequence[Sample], answers: Sequence[str], score: Score) -> None:
        for sample, text in zip(samples, answers, strict=True):
            self.score_of[sample.id] = score(sample, text)
            self.scores.setdefault(sample.task, []).append(self.score_of[sample.id])
            self.predictions[sample.id] = text

    def evaluation(
        self, order: Sequence[str], samples: SampleSet[Sample], *, details: bool, scores: bool = False
    ) -> Evaluation:
        """The result; tasks in the order given, each sample counting once in its task.

        What was skipped is counted in any case, by reason; with `details`, all of it is listed. Benchmarks may add figures
        of their own, such as MME's points. scores: keep those of all items, by task, for `paired_difference`.
        """
        left_out = {task: report for task, report in samples.skipped.items() if report.count}
        tasks = [
            TaskResult.from_scores(task, self.scores[task], left_out[task].count if task in left_out else 0)
            for task in order
        ]
        extra: dict[str, Any] = {"predictions": dict(sorted(self.predictions.items()))} if details else {}
        if scores or details:
            places = {sample.id: sample.task for sample in samples}
            extra["scores"] = {task: [self.score_of[i] for i in sorted(places) if places[i] == task] for task in order}
        extra[
            "spending"
        ] = {}  # as fractions of the unpruned cost: the mean, the 95th percentile, and the dearest sample
        for name, values in self.fractions.items():
            ordered = sorted(values)
            worst, p95 = ordered[-1], ordered[math.ceil(0.95 * len(ordered)) - 1]
            extra["spending"][name] = {"mean": mean(ordered), "p95": p95, "worst": worst}
        if left_out:
            extra["skipped"] = {task: _skip_entry(report, details=details) for task, report in left_out.items()}
        figures = samples.figures(self.score_of)
        if figures:
            extra["figures"] = figures
        return Evaluation.from_tasks(
            tasks,
            flops={name: mean(values) for name, values in self.flops.items()},
            fraction={name: mean(values) for name, values in self.fractions.items()},
            kl=mean(self.kl) if self.kl else None,
            seconds=self.seconds,
            details=extra,
        )


def _skip_entry(report: SkipReport, *, details: bool) -> dict[str, Any]:
    entry = report.to_dict()
    return entry if details else {**entry, "listed": entry["listed"][:BRIEF]}


def mean(values: Sequence[float]) -> float:
    return sum(sorted(values)) / len(values)  # sorted: the order of the batches does not show in the last digit
