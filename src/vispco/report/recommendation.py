"""`Recommendation`: from a target to one configuration, with what it loses, what it saves, and where it may fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.cost import Budget
from vispco.cost.floor import raised_budgets
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.paired import paired_difference
from vispco.timing.timing import BenchSettings, time_candidates

if TYPE_CHECKING:
    from vispco.data.sample import Sample
    from vispco.pruner.pruner_spec import PrunerSpec

_SHOWN = 3  # items that are shown
_TIMED = 8  # prompts that are timed


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """One configuration. loss, low, high: accuracy lost in points, with its paired 95 % interval.

    within_noise: also by McNemar's test. worst_task: its name and the points that it loses. worst_items: right without
    pruning and wrong with it. unmet: why the target is not met; None where it is.
    """

    budget: float | str
    chain: str
    items: int
    unpruned: float
    pruned: float
    loss: float
    low: float
    high: float
    within_noise: bool
    fraction: float
    times: tuple[dict[str, Any], dict[str, Any]]
    worst_task: tuple[str, float]
    worst_items: tuple[dict[str, str], ...]
    unmet: str | None = None

    def lines(self, model: str, run: str) -> list[str]:
        """The answer in plain words, and how to deploy it."""
        whole, fewer = self.times
        kept = f"{whole['kv_bytes'] / 1e6:.3g} MB of KV cache become {fewer['kv_bytes'] / 1e6:.3g} MB"
        sure = "within noise" if self.within_noise else "beyond noise"
        task, lost = self.worst_task
        found = [
            f"Prune {model} with {run} at {Budget.of(self.budget).label}.",
            (
                f"Accuracy changes by {0 - self.loss:+.1f} points (95 % interval {0 - self.high:+.1f} to {0 - self.low:+.1f}, paired, "
                f"{self.items} items: {self.unpruned:.1%} becomes {self.pruned:.1%}), which is {sure}."
            ),
            (
                f"It saves {1 - self.fraction:.0%} of the language model's FLOPs. Measured here: {whole['ttft_ms']['p50']:.1f} ms to the "
                f"first token become {fewer['ttft_ms']['p50']:.1f} ms (x{fewer['speedup']['ttft']:.2f}), {kept}."
            ),
            f"It may fail most on {task}, whose accuracy changes by {-lost:+.1f} points."
            if lost > 0
            else "No task lost accuracy on these items.",
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
    whole = evaluator()
    for chosen in wanted:
        say(f"accuracy at {Budget.of(chosen).label}")
        pruner = spec.at(chosen).resolve(model)
        with raised_budgets() as raised:
            fewer = evaluator(pruner)
        paired = paired_difference(fewer.details["scores"], whole.details["scores"])
        if loss is None or -100 * paired.difference <= loss:
            break
    rows = time_candidates(
        model, processor, sorted(samples, key=lambda sample: -sample.area)[:_TIMED], {"pruned": spec.at(chosen)},
        BenchSettings(rounds=3, new_tokens=2),
    )  # fmt: skip
    unmet = rows[1].unmet or (raised[0] if raised else None)
    if loss is not None and -100 * paired.difference > loss:
        unmet = f"no searched budget loses {loss:g} points or fewer; this one, the largest, loses least"
    return Recommendation(
        budget=chosen,
        chain=str(pruner.chain),
        items=paired.items,
        unpruned=whole.accuracy,
        pruned=fewer.accuracy,
        loss=-100 * paired.difference,
        low=-100 * paired.high,
        high=-100 * paired.low,
        within_noise=paired.within_noise,
        fraction=fewer.fraction["exact"],
        times=(rows[0].to_dict(), rows[1].to_dict()),
        worst_task=max(
            (
                (own.task, 100 * (own.accuracy - less.accuracy))
                for own, less in zip(whole.tasks, fewer.tasks, strict=True)
            ),
            key=lambda pair: pair[1],
        ),
        worst_items=_worst_items(evaluator, whole.details["predictions"], fewer.details["predictions"]),
        unmet=unmet,
    )


def _worst_items(
    evaluator: TaskEvaluator, whole: Mapping[str, str], fewer: Mapping[str, str]
) -> tuple[dict[str, str], ...]:
    """Items that lose the most, of those that lose anything. whole, fewer: answers by id, unpruned and pruned."""
    lost = {
        each.id: evaluator.options.score(each, whole[each.id]) - evaluator.options.score(each, fewer[each.id])
        for each in evaluator.samples
    }
    losing = sorted(
        (each for each in evaluator.samples if lost[each.id] > 0), key=lambda each: (-lost[each.id], each.id)
    )
    return tuple(
        {
            "id": each.id,
            "task": each.task,
            "question": each.question,
            "unpruned": whole[each.id].strip(),
            "pruned": fewer[each.id].strip(),
        }
        for each in losing[:_SHOWN]
    )
