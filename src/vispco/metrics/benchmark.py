"""What a benchmark is, and the benchmarks by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vispco.core.errors import UnknownNameError
from vispco.core.registry import Registry
from vispco.metrics.metric import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vispco.data.files.record import Record
    from vispco.metrics.metric import Item

    Scored = Sequence[tuple[Record, float]]

SHORT = "Answer with a single word or phrase."
LETTER = "Answer with the letter of the right option only."
YES_NO = "Please answer yes or no."

Kind = Literal["options", "words", "yes-no", "text"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark: what it asks, how it is scored, what its file is called.

    kind: what an answer is: one of several options, a few words, yes or no, or any text.
    metric: a name in `METRICS`; the official one.
    ending: the last line of our prompt, after hint, question and options.
    files: VLMEvalKit's names without .tsv, the preferred one first.
    max_new_tokens: where an answer is cut off: room for a right answer in a short sentence.
    group: the key of the rows that belong together; a limit keeps such groups whole.
    figures: further figures from all scored rows, besides the mean score.
    """

    name: str
    title: str
    kind: Kind
    metric: str
    ending: str
    files: tuple[str, ...]
    max_new_tokens: int = 32
    group: Callable[[Record], str] | None = None
    figures: Callable[[Scored], dict[str, float]] | None = None

    def prompt(self, record: Record) -> str:
        """Our prompt of a row."""
        lines = [f"Hint: {record.hint}"] if record.hint else []
        lines.append(record.question.strip())
        lines += [f"{letter}. {text}" for letter, text in record.options.items()]
        if self.ending and self.ending.lower() not in record.question.lower():
            lines.append(self.ending)
        return "\n".join(lines)

    def score(self, prediction: str, item: Item) -> float:
        """The score of a prediction by the benchmark's own metric."""
        return METRICS.get(self.metric)(prediction, item)


BENCHMARKS: Registry[Benchmark] = Registry("benchmark", "vispco.benchmarks")


def benchmark(name: str) -> Benchmark:
    """A benchmark by its name, in any spelling of it or of its file: mmbench, MMBench, A-OKVQA, MMBench_DEV_EN."""
    wanted = plain(name)
    for entry in map(BENCHMARKS.get, BENCHMARKS):
        if wanted in {plain(known) for known in (entry.name, entry.title, *entry.files)}:
            return entry
    raise UnknownNameError("benchmark", name, BENCHMARKS.names())


def plain(name: str) -> str:
    """A name without case, spaces, hyphens and underscores."""
    return name.strip().lower().replace("-", "").replace("_", "").replace(" ", "")
