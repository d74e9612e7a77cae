"""`Recommendation`: from a target to one configuration, with what it loses, what it saves, and where it may fail."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.cost import Budget
from vispco.cost.floor import raised_budgets
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.timing.timing import BenchSettings, time_candidates

if TYPE_CHECKING:
    from vispco.data.sample import Sample
    from vispco.pruner.pruner_spec import PrunerSpec
    from vispco.timing.timing import BenchRow

DRAWS = 2000  # of the bootstrap
SHOWN = 3  # items that are shown
TIMED = 8  # prompts that are timed


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """One configuration. loss, low, high: accuracy lost in points, with its paired 95 % interval.

    worst_task: its name and the points that it loses. worst_items: right without pruning and wrong with it. unmet: why the
    target is not met; None where it is.
    """

    budget: float | str
    chain: str
    items: int
    unpruned: float
    pruned: float
    loss: float
    low: float
    high: float
    fraction: float
    times: tuple[dict[str, Any], dict[str, Any]]
    worst_task: tuple[str, float]
    worst_items: tuple[dict[str, str], ...]
    unmet: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self, model: str, run: str) -> list[str]:
        """The answer in plain words, and how to deploy it."""
        whole, fewer = self.times
        kept = f"{whole['kv_bytes'] / 1e6:.3g} MB of KV cache become {fewer['kv_bytes'] / 1e6:.3g} MB"
        sure = "within noise" if self.low <= 0 <= self.high else "beyond noise"
        found = [
            f"Prune {model} with {run} at {Budget.of(self.budget).label}.",
            (
                f"Accuracy changes by {-self.loss:+.1f} points (95 % interval {-self.high:+.1f} to {-self.low:+.1f}, paired, "
                f"{self.items} items: {self.unpruned:.1%} becomes {self.pruned:.1%}), which is {sure}."
            ),
            (
                f"It saves {1 - self.fraction:.0%} of the language model's FLOPs. Measured here: {whole['ttft_ms']['p50']:.1f} ms to the "
                f"first token become {fewer['ttft_ms']['p50']:.1f} ms (x{fewer['speedup']['ttft']:.2f}), {kept}."
            ),
            f"It may fail most on {self.worst_task[0]}, whose accuracy changes by {-self.worst_task[1]:+.1f} points.",
            *(
                f"  {each['id']}: {each['question']} {each['unpruned']!r} becomes {each['pruned']!r}"
                for each in self.worst_items
            ),
        ]
        budget = f'"{self.budget}"' if isinstance(self.budget, str) else f"{self.budget:g}"
        given = str(self.budget) if isinstance(self.budget, str) else f"{self.budget:g}"
        found += [f"The target is not met: {self.unmet}"] if self.unmet else []
        return [
            *found,
            "Deploy it with one of:",
            f"  vispco serve {model} --pruner {run} --budget {given}",
            f"  vispco export {run} --budget {self.fraction:.2g} --for vllm  # the nearest flags, and what they give up",
            f'  model, processor = vispco.load("{model}")',
            f'  pruner = vispco.Pruner.from_pretrained("{run}", budget={budget})',
            "  pruner.apply(model)  # then model.generate(**inputs), as before",
        ]


def recommend(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    spec: PrunerSpec,
    *,
    budget: str | None = None,
    loss: float | None = None,
    searched: Sequence[float] = (),
    say: Callable[[str], None] = lambda _: None,
) -> Recommendation:
    """What a search found, at a budget, or at the smallest searched budget that loses at most `loss` points on the samples."""
    if (budget is None) == (loss is None):
        raise InvalidInputError(
            "Give one target: a budget (0.5, 0.5t, 40ms, 120MB), or the points of accuracy to lose (--loss 1)."
        )
    wanted: list[Any] = sorted(searched) if budget is None else [Budget.of(budget).plain]
    usual = spec.at(wanted[0])
    evaluator = TaskEvaluator(
        model, processor, samples, spec.chain or "divprune", batch_size=usual.usual_batch, details=True
    )
    say(f"accuracy of the unpruned model on {len(samples)} items")
    whole = _scores(evaluator, evaluator())
    for chosen in wanted:
        say(f"accuracy at {Budget.of(chosen).label}")
        pruner = spec.at(chosen).resolve(model)
        with raised_budgets() as raised:
            evaluation = evaluator(pruner)
        fewer = _scores(evaluator, evaluation)
        lost = {key: 100 * (whole[key][0] - fewer[key][0]) for key in whole}
        if loss is None or statistics.fmean(lost.values()) <= loss:
            break
    rows = time_candidates(
        model, processor, sorted(samples, key=lambda sample: -sample.area)[:TIMED], {"pruned": spec.at(chosen)},
        BenchSettings(rounds=3, new_tokens=2),
    )  # fmt: skip
    low, high = _paired_interval(list(lost.values()))
    unmet = rows[1].unmet or (raised[0] if raised else None)
    if loss is not None and statistics.fmean(lost.values()) > loss:
        unmet = f"no searched budget loses {loss:g} points or fewer; this one, the largest, loses least"
    return Recommendation(
        budget=chosen,
        chain=str(pruner.chain),
        items=len(lost),
        unpruned=statistics.fmean(each[0] for each in whole.values()),
        pruned=statistics.fmean(each[0] for each in fewer.values()),
        loss=statistics.fmean(lost.values()),
        low=low,
        high=high,
        fraction=evaluation.fraction["exact"],
        times=_pair(rows),
        worst_task=_worst_task(samples, lost),
        worst_items=_worst_items(samples, whole, fewer),
        unmet=unmet,
    )


def _pair(rows: Sequence[BenchRow]) -> tuple[dict[str, Any], dict[str, Any]]:
    return rows[0].to_dict(), rows[1].to_dict()


def _scores(evaluator: TaskEvaluator, found: Any) -> dict[str, tuple[float, str]]:
    """Score and answer of each item, by its id."""
    told = found.details["predictions"]
    return {each.id: (evaluator.score(each, told[each.id]), told[each.id]) for each in evaluator.samples}


def _paired_interval(lost: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean difference: items are drawn again, each with both of its scores."""
    rng = Random(0)  # noqa: S311 - a bootstrap
    means = sorted(statistics.fmean(rng.choices(lost, k=len(lost))) for _ in range(DRAWS))
    return means[round(0.025 * DRAWS)], means[round(0.975 * DRAWS) - 1]


def _worst_task(samples: Sequence[Sample], lost: dict[str, float]) -> tuple[str, float]:
    tasks: dict[str, list[float]] = {}
    for sample in samples:
        tasks.setdefault(sample.task, []).append(lost[sample.id])
    means = {task: statistics.fmean(values) for task, values in tasks.items()}
    worst = max(means, key=lambda task: means[task])
    return worst, means[worst]


def _worst_items(
    samples: Sequence[Sample], whole: dict[str, tuple[float, str]], fewer: dict[str, tuple[float, str]]
) -> tuple[dict[str, str], ...]:
    """Items that lose the most, of those that lose anything."""
    losing = [each for each in samples if whole[each.id][0] > fewer[each.id][0]]
    losing.sort(key=lambda each: (fewer[each.id][0] - whole[each.id][0], each.id))
    return tuple(
        {
            "id": each.id,
            "task": each.task,
            "question": each.question,
            "unpruned": whole[each.id][1].strip(),
            "pruned": fewer[each.id][1].strip(),
        }
        for each in losing[:SHOWN]
    )
