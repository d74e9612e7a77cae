"""MME: yes or no, with two questions about each picture, of which one has the answer yes and one no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.metrics.benchmark import BENCHMARKS, YES_NO, Benchmark

if TYPE_CHECKING:
    from vispco.metrics.benchmark import Scored
    from vispco.sources.record import Record

REASONING = ("code_reasoning", "commonsense_reasoning", "numerical_calculation", "text_translation")


def picture_of(record: Record) -> str:
    """The category and the picture that a row asks about."""
    return f"{record.meta.get('category', '')}/{record.meta.get('image_path') or record.id}"


def figures(scored: Scored) -> dict[str, float]:
    """MME's points. A category gives 100 x acc + 100 x acc+; acc+ is the share of pictures with both answers right."""
    categories: dict[str, dict[str, list[float]]] = {}
    for record, score in scored:
        pictures = categories.setdefault(str(record.meta.get("category", "")), {})
        pictures.setdefault(picture_of(record), []).append(score)
    points: dict[str, float] = {}
    for category, pictures in categories.items():
        rows = [score for scores in pictures.values() for score in scores]
        pairs = [min(scores) for scores in pictures.values() if len(scores) > 1]
        points[category] = 100 * sum(rows) / len(rows) + (100 * sum(pairs) / len(pairs) if pairs else 0.0)
    reasoning = sum(value for category, value in points.items() if category in REASONING)
    pairs = [min(scores) for pictures in categories.values() for scores in pictures.values() if len(scores) > 1]
    plus = {"acc+": sum(pairs) / len(pairs)} if pairs else {}
    total = {"perception points": sum(points.values()) - reasoning, "reasoning points": reasoning}
    return {**plus, **total, **{f"{category} points": value for category, value in points.items() if category}}


MME = BENCHMARKS.register(
    Benchmark("mme", "MME", "yes-no", "yes-no", YES_NO, ("MME",), group=picture_of, figures=figures)
)
