"""The paper's eight benchmarks: what each asks, how it is scored, and what its file is called in VLMEvalKit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vispco.errors import UnknownNameError
from vispco.metrics.containment import containment
from vispco.metrics.multiple_choice import options
from vispco.metrics.relaxed import relaxed
from vispco.metrics.vqa import vqa
from vispco.metrics.yes_no import yes_no

if TYPE_CHECKING:
    from vispco.metrics.metric import Metric
    from vispco.sources.record import Record

SHORT = "Answer with a single word or phrase."
LETTER = "Answer with the letter of the right option only."
YES_NO = "Please answer yes or no."
OR_NONE = "If the picture does not show the answer, say 'unanswerable'."


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark. `ending` is put on a line of its own after the question, its hint before it, its options between.

    max_new_tokens: where an answer is cut off; what a right one takes, with room for a sentence around it.
    """

    name: str
    title: str
    metric: Metric
    ending: str
    files: tuple[str, ...]  # VLMEvalKit's names without .tsv, the one to prefer first
    max_new_tokens: int = 32

    def prompt(self, record: Record) -> str:
        """What the model is asked."""
        lines = [f"Hint: {record.hint}"] if record.hint else []
        lines.append(record.question.strip())
        lines += [f"{letter}. {text}" for letter, text in record.options.items()]
        if self.ending and self.ending.lower() not in record.question.lower():
            lines.append(self.ending)
        return "\n".join(lines)


BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("aokvqa", "A-OKVQA", options, LETTER, ("A-OKVQA", "AOKVQA", "aokvqa_val")),
        Benchmark("vizwiz", "VizWiz", vqa, f"{OR_NONE} {SHORT}", ("VizWiz", "VizWiz_VAL")),
        Benchmark("seedbench", "SEEDBench", options, LETTER, ("SEEDBench_IMG", "SEEDBench")),
        Benchmark(
            "mmbench",
            "MMBench",
            options,
            LETTER,
            (
                "MMBench_DEV_EN",
                "MMBench_DEV_EN_V11",
                "MMBench",
                "MMBench_V11",
                "MMBench_TEST_EN",
                "MMBench_TEST_EN_V11",
            ),
        ),
        Benchmark("mme", "MME", yes_no, YES_NO, ("MME",)),
        Benchmark("chartqa", "ChartQA", relaxed, SHORT, ("ChartQA_TEST", "ChartQA", "ChartQA_VAL")),
        Benchmark("ocrbench", "OCRBench", containment, "", ("OCRBench",), max_new_tokens=128),
        Benchmark("textvqa", "TextVQA", vqa, SHORT, ("TextVQA_VAL", "TextVQA")),
    )
}


def benchmark(name: str) -> Benchmark:
    """By its name, in any spelling of it or of its file: mmbench, MMBench, A-OKVQA, MMBench_DEV_EN."""
    wanted = plain(name)
    for entry in BENCHMARKS.values():
        if wanted in {plain(known) for known in (entry.name, entry.title, *entry.files)}:
            return entry
    raise UnknownNameError("benchmark", name, list(BENCHMARKS))


def plain(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "").replace(" ", "")
