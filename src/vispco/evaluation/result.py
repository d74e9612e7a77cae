"""`Evaluation`: accuracy, FLOPs and KL of one schedule, as plain data that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError, parsing
from vispco.evaluation.paired import PairedDifference, paired_difference

if TYPE_CHECKING:
    from vispco.core.schedule import Schedule

_Z_95 = 1.959963984540054  # the 97.5 % point of the normal distribution


def wilson_interval(successes: float, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion; it stays inside [0, 1] where the normal one leaves it."""
    if n < 0 or successes < 0 or successes > n:
        raise InvalidInputError(f"{successes} successes in {n} trials is not a proportion.")
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = (p + _Z_95**2 / (2 * n)) / (1 + _Z_95**2 / n)
    half = _Z_95 / (1 + _Z_95**2 / n) * math.sqrt(p * (1 - p) / n + _Z_95**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class TaskResult:
    """Accuracy on one task: the mean of per-item scores in [0, 1], with its 95 % interval."""

    task: str
    accuracy: float
    low: float
    high: float
    n: int
    skipped: int = 0

    @classmethod
    def from_scores(cls, task: str, scores: Sequence[float], skipped: int = 0) -> TaskResult:
        low, high = wilson_interval(sum(scores), len(scores))
        accuracy = sum(scores) / len(scores) if scores else 0.0
        return cls(task, accuracy, low, high, len(scores), skipped)


@dataclass(frozen=True)
class Evaluation:
    """Quality and cost of one schedule.

    `accuracy` is the mean over tasks (each task counts the same, as in the paper); `low` and `high` bound it at 95 %.
    `flops` holds, by cost model (`exact`, `paper`), the mean language-model prefill FLOPs of a sample, and as `prefill` those
    of the whole prefill where the vision tower is described; `fraction` the same relative to the unpruned model. `kl` is the mean KL to the unpruned model, where it was asked for.
    """

    tasks: tuple[TaskResult, ...]
    accuracy: float
    low: float
    high: float
    flops: Mapping[str, float]
    fraction: Mapping[str, float]
    kl: float | None = None
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_tasks(
        cls, tasks: Sequence[TaskResult], flops: Mapping[str, float], fraction: Mapping[str, float], **more: Any
    ) -> Evaluation:
        """Average over tasks. The interval is that of a mean of independent proportions; of one task, it is the task's.

        more: `kl`, `seconds` and `details`.
        """
        if not tasks:
            raise InvalidInputError("An evaluation needs at least one task; none was given.")
        accuracy = sum(t.accuracy for t in tasks) / len(tasks)
        variance = sum(((t.high - t.low) / (2 * _Z_95)) ** 2 for t in tasks) / len(tasks) ** 2
        half = _Z_95 * math.sqrt(variance)
        low, high = max(0.0, accuracy - half), min(1.0, accuracy + half)
        if len(tasks) == 1:
            low, high = tasks[0].low, tasks[0].high
        return cls(tuple(tasks), accuracy, low, high, dict(flops), dict(fraction), **more)

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Accuracy, 95 % interval, items and skipped items of each task, and last of all together; for people."""
        found = [
            (task.task, f"{task.accuracy:.1%}", f"{task.low:.1%} - {task.high:.1%}", str(task.n), str(task.skipped))
            for task in self.tasks
        ]
        items, skipped = (str(sum(getattr(task, name) for task in self.tasks)) for name in ("n", "skipped"))
        interval = f"{self.low:.1%} - {self.high:.1%}"
        return [*found, ("average", f"{self.accuracy:.1%}", interval, items, skipped)]

    def cost_lines(self) -> str:
        """FLOPs, spending by sample, other figures and KL, as lines for people."""
        lines = [
            f"{self.flops[name] / 1e9:.4g} GFLOPs a sample "
            + ("in the whole prefill, vision tower inside" if name == "prefill" else f"in the language model ({name})")
            + f", {self.fraction[name]:.1%} of unpruned"
            for name in self.flops
        ]
        for name, spent in self.details.get("spending", {}).items():
            lines.append(
                f"by sample ({name}): mean {spent['mean']:.1%}, p95 {spent['p95']:.1%}, worst {spent['worst']:.1%}"
            )
        for task, figures in self.details.get("figures", {}).items():
            lines.append(f"{task}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))
        if self.kl is not None:
            lines.append(f"KL to the unpruned model: {self.kl:.4g}")
        return "\n".join([*lines, f"{self.seconds:.1f} s"])

    def paired(self, against: Evaluation) -> PairedDifference | None:
        """This one held against another on the same items; None where their scores were not kept, or items differ."""
        own, other = (each.details.get("scores") or {} for each in (self, against))
        if not own or {task: len(s) for task, s in own.items()} != {task: len(s) for task, s in other.items()}:
            return None
        return paired_difference(own, other)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    @parsing("an evaluation")
    def from_dict(cls, data: Mapping[str, Any]) -> Evaluation:
        known = {k: v for k, v in data.items() if k in cls.__dataclass_fields__}
        known["tasks"] = tuple(TaskResult(**t) for t in data["tasks"])
        return cls(**known)


Evaluator = Callable[["Schedule"], Evaluation]
"""Anything that turns a schedule into an evaluation: the searches and sweeps know no more of a model than this."""
