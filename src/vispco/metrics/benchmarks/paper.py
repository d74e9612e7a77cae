"""The benchmarks of the paper, in the order of its tables.

MMBench asks each question once for every rotation of its options. The rotations of question n have the indices n,
n + 1,000,000, n + 2,000,000, ..., or a column `g_index` with n. Its circular score counts a question only if all its
rotations are answered right. MME asks two questions about each picture; the answer to one is yes, to the other no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.metrics.benchmark import BENCHMARKS, LETTER, SHORT, YES_NO, Benchmark

if TYPE_CHECKING:
    from vispco.data.files.record import Record
    from vispco.metrics.benchmark import Scored

ROTATION = 1_000_000
MMBENCH_SPLITS = ("DEV_EN", "DEV_EN_V11", "", "V11", "TEST_EN", "TEST_EN_V11")
MMBENCH_FILES = tuple("MMBench" + (f"_{split}" if split else "") for split in MMBENCH_SPLITS)
MME_REASONING = ("code_reasoning", "commonsense_reasoning", "numerical_calculation", "text_translation")
UNANSWERABLE = f"If the picture does not show the answer, say 'unanswerable'. {SHORT}"


def mmbench_question(record: Record) -> str:
    """The index of the question that the row is a rotation of."""
    given = str(record.meta.get("g_index", "")).strip() or record.id
    return str(int(given) % ROTATION) if given.isdecimal() else given


def mmbench_figures(scored: Scored) -> dict[str, float]:
    """The circular score."""
    groups: dict[str, list[float]] = {}
    for record, score in scored:
        groups.setdefault(mmbench_question(record), []).append(score)
    return {"circular": sum(min(scores) for scores in groups.values()) / len(groups)}


def mme_picture(record: Record) -> str:
    """The category and the picture that a row asks about."""
    return f"{record.meta.get('category', '')}/{record.meta.get('image_path') or record.id}"


def mme_figures(scored: Scored) -> dict[str, float]:
    """MME's points. A category gives 100 x acc + 100 x acc+; acc+ is the share of pictures with both answers right."""
    categories: dict[str, dict[str, list[float]]] = {}
    for record, score in scored:
        pictures = categories.setdefault(str(record.meta.get("category", "")), {})
        pictures.setdefault(mme_picture(record), []).append(score)
    points: dict[str, float] = {}
    for category, pictures in categories.items():
        rows = [score for scores in pictures.values() for score in scores]
        pairs = [min(scores) for scores in pictures.values() if len(scores) > 1]
        points[category] = 100 * sum(rows) / len(rows) + (100 * sum(pairs) / len(pairs) if pairs else 0.0)
    reasoning = sum(value for category, value in points.items() if category in MME_REASONING)
    pairs = [min(scores) for pictures in categories.values() for scores in pictures.values() if len(scores) > 1]
    plus = {"acc+": sum(pairs) / len(pairs)} if pairs else {}
    total = {"perception points": sum(points.values()) - reasoning, "reasoning points": reasoning}
    return {**plus, **total, **{f"{category} points": value for category, value in points.items() if category}}


for benchmark in (
    # multiple choice that needs knowledge about the world
    Benchmark("aokvqa", "A-OKVQA", "options", "option", LETTER, ("A-OKVQA", "AOKVQA", "aokvqa_val")),
    # questions of blind people about their own photos, many of which show no answer
    Benchmark("vizwiz", "VizWiz", "text", "vqa", UNANSWERABLE, ("VizWiz", "VizWiz_VAL")),
    # multiple choice about scenes, instances and text; the images only
    Benchmark("seedbench", "SEEDBench", "options", "option", LETTER, ("SEEDBench_IMG", "SEEDBench")),
    Benchmark(
        "mmbench",
        "MMBench",
        "options",
        "option",
        LETTER,
        MMBENCH_FILES,
        group=mmbench_question,
        figures=mmbench_figures,
    ),
    Benchmark("mme", "MME", "yes-no", "yes-no", YES_NO, ("MME",), group=mme_picture, figures=mme_figures),
    # a number or a few words read from a chart
    Benchmark("chartqa", "ChartQA", "words", "relaxed", SHORT, ("ChartQA_TEST", "ChartQA", "ChartQA_VAL")),
    # text of all kinds read from a picture
    Benchmark("ocrbench", "OCRBench", "text", "contains", "", ("OCRBench",), max_new_tokens=128),
    # questions about text in photos, each answered by ten people
    Benchmark("textvqa", "TextVQA", "words", "vqa", SHORT, ("TextVQA_VAL", "TextVQA")),
):
    BENCHMARKS.register(benchmark)
