"""Benchmarks: what each asks and how it is scored, those of the paper, and where a user's files of them are.

MMBench asks each question once for every rotation of its options. The rotations of question n have the indices n,
n + 1,000,000, n + 2,000,000, ..., or a column `g_index` with n. Its circular score counts a question only if all its
rotations are answered right. MME asks two questions about each picture; the answer to one is yes, to the other no.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.registry import Registry
from vispco.data.files.record import Record
from vispco.metrics.metric import METRICS

Scored = Sequence[tuple[Record, float]]

_SHORT = "Answer with a single word or phrase."
_LETTER = "Answer with the letter of the right option only."
_YES_NO = "Please answer yes or no."

_Kind = Literal["options", "words", "yes-no", "text"]


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
    kind: _Kind
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
        ending = self.ending or (_LETTER if record.options else "")
        if ending and ending.lower() not in record.question.lower():
            lines.append(ending)
        return "\n".join(lines)

    def kind_of(self, record: Record) -> _Kind:
        """The kind of answer to this row; a row of one's own with options is multiple choice."""
        return "options" if self.kind == "text" and record.options else self.kind


_OWN_NAME = re.compile(r"[\w-]+")

BENCHMARKS: Registry[Benchmark] = Registry("benchmark", "vispco.benchmarks")


def benchmark(name: str, *, own: bool = False) -> Benchmark:
    """A benchmark by its name, in any spelling of it or of its file: mmbench, MMBench, A-OKVQA, MMBench_DEV_EN.

    own: a name that is none of these is a benchmark of the user's, asked as it is and scored by the metric `answer`.
    """
    wanted = plain(name)
    for entry in map(BENCHMARKS.get, BENCHMARKS):
        if wanted in {plain(known) for known in (entry.name, entry.title, *entry.files)}:
            return entry
    if own and _OWN_NAME.fullmatch(name):
        return Benchmark(name, name, "text", "answer", "", ())
    raise UnknownNameError("benchmark", name, BENCHMARKS.names())


def plain(name: str) -> str:
    """A name without case, spaces, hyphens and underscores."""
    return name.strip().lower().replace("-", "").replace("_", "").replace(" ", "")


_ROTATION = 1_000_000
_MMBENCH_SPLITS = ("DEV_EN", "DEV_EN_V11", "", "V11", "TEST_EN", "TEST_EN_V11")
_MMBENCH_FILES = tuple("MMBench" + (f"_{split}" if split else "") for split in _MMBENCH_SPLITS)
_MME_REASONING = ("code_reasoning", "commonsense_reasoning", "numerical_calculation", "text_translation")
_UNANSWERABLE = f"If the picture does not show the answer, say 'unanswerable'. {_SHORT}"


def _mmbench_question(record: Record) -> str:
    """The index of the question that the row is a rotation of."""
    given = str(record.meta.get("g_index", "")).strip() or record.id
    return str(int(given) % _ROTATION) if given.isdecimal() else given


def _mmbench_figures(scored: Scored) -> dict[str, float]:
    """The circular score."""
    groups: dict[str, list[float]] = {}
    for record, score in scored:
        groups.setdefault(_mmbench_question(record), []).append(score)
    return {"circular": sum(min(scores) for scores in groups.values()) / len(groups)}


def _mme_picture(record: Record) -> str:
    """The category and the picture that a row asks about."""
    return f"{record.meta.get('category', '')}/{record.meta.get('image_path') or record.id}"


def _mme_figures(scored: Scored) -> dict[str, float]:
    """MME's points. A category gives 100 x acc + 100 x acc+; acc+ is the share of pictures with both answers right."""
    categories: dict[str, dict[str, list[float]]] = {}
    for record, score in scored:
        pictures = categories.setdefault(str(record.meta.get("category", "")), {})
        pictures.setdefault(_mme_picture(record), []).append(score)
    points: dict[str, float] = {}
    for category, pictures in categories.items():
        rows = [score for scores in pictures.values() for score in scores]
        pairs = [min(scores) for scores in pictures.values() if len(scores) > 1]
        points[category] = 100 * sum(rows) / len(rows) + (100 * sum(pairs) / len(pairs) if pairs else 0.0)
    reasoning = sum(value for category, value in points.items() if category in _MME_REASONING)
    pairs = [min(scores) for pictures in categories.values() for scores in pictures.values() if len(scores) > 1]
    plus = {"acc+": sum(pairs) / len(pairs)} if pairs else {}
    total = {"perception points": sum(points.values()) - reasoning, "reasoning points": reasoning}
    return {**plus, **total, **{f"{category} points": value for category, value in points.items() if category}}


for _known in (
    # multiple choice that needs knowledge about the world
    Benchmark("aokvqa", "A-OKVQA", "options", "option", _LETTER, ("A-OKVQA", "AOKVQA", "aokvqa_val")),
    # questions of blind people about their own photos, many of which show no answer
    Benchmark("vizwiz", "VizWiz", "text", "vqa", _UNANSWERABLE, ("VizWiz", "VizWiz_VAL")),
    # multiple choice about scenes, instances and text; the images only
    Benchmark("seedbench", "SEEDBench", "options", "option", _LETTER, ("SEEDBench_IMG", "SEEDBench")),
    Benchmark(
        "mmbench",
        "MMBench",
        "options",
        "option",
        _LETTER,
        _MMBENCH_FILES,
        group=_mmbench_question,
        figures=_mmbench_figures,
    ),
    Benchmark("mme", "MME", "yes-no", "yes-no", _YES_NO, ("MME",), group=_mme_picture, figures=_mme_figures),
    # a number or a few words read from a chart
    Benchmark("chartqa", "ChartQA", "words", "relaxed", _SHORT, ("ChartQA_TEST", "ChartQA", "ChartQA_VAL")),
    # text of all kinds read from a picture
    Benchmark("ocrbench", "OCRBench", "text", "contains", "", ("OCRBench",), max_new_tokens=128),
    # questions about text in photos, each answered by ten people
    Benchmark("textvqa", "TextVQA", "words", "vqa", _SHORT, ("TextVQA_VAL", "TextVQA")),
):
    BENCHMARKS.register(_known)

# A comma that separates tasks is followed by a name and then =, another comma or the end; others belong to a path.
_SEPARATOR = re.compile(r",(?=\s*[\w-]*\s*(?:[=,]|$))")
_ENDINGS = ("", "_local")  # VLMEvalKit writes X_local.tsv, with image files beside it, for tables above 1 GB


def find(data_root: str | Path, names: Iterable[str] | None = None) -> dict[str, Path]:
    """The file of each benchmark in a folder, or in a folder in it; all that are there, or those that are named."""
    root = Path(data_root)
    if not root.is_dir():
        raise InvalidInputError(
            f"The data root {root} is not a folder. Give the one with the .tsv files of VLMEvalKit."
        )
    present = {plain(path.stem): path for path in sorted([*root.glob("*/*.tsv"), *root.glob("*.tsv")])}
    wanted = [benchmark(name) for name in names] if names is not None else [BENCHMARKS.get(name) for name in BENCHMARKS]
    found: dict[str, Path] = {}
    for entry in wanted:
        stems = [plain(name + ending) for name in (*entry.files, entry.name) for ending in _ENDINGS]
        there = [present[stem] for stem in stems if stem in present]
        found |= {entry.name: there[0]} if there else {}
    missing = [entry for entry in wanted if entry.name not in found]
    if not found or (names is not None and missing):
        looked = "; ".join(f"{entry.name}: {', '.join(name + '.tsv' for name in entry.files)}" for entry in missing)
        raise InvalidInputError(
            f"{root} does not have the file of {', '.join(entry.name for entry in missing)}. Names looked for: {looked}."
        )
    return found


def parse_tasks(tasks: str, data_root: str | Path | None = None) -> tuple[dict[str, Path], dict[str, str]]:
    """(files, metrics) by name from "mmbench=PATH,mine=PATH:METRIC", where `mine` may be any name of one's own.

    Names alone are found in a data root; "all" is all that it has.
    """
    found: dict[str, Path] = {}
    metrics: dict[str, str] = {}
    for part in (part.strip() for part in _SEPARATOR.split(tasks)):
        if not part:
            continue
        typed, separator, given = (piece.strip() for piece in part.partition("="))
        if typed == "all" and not separator and data_root is not None:
            located = find(data_root)
        elif separator:
            name = benchmark(typed, own=True).name
            _check_slip(typed, given)
            path, metric = _existing(typed, given)
            located = {name: path}
            metrics |= {name: metric} if metric else {}
        elif data_root is None:
            name = benchmark(typed).name
            raise InvalidInputError(f"Task {name} has no file. Write {name}=PATH, or give --data-root.")
        else:
            located = find(data_root, [typed])
        for name, path in located.items():
            if name in found and found[name] != path:
                raise InvalidInputError(f"Task {name} is given twice, as {found[name]} and as {path}. Keep one.")
            found[name] = path
    if not found:
        raise InvalidInputError(
            f"No task in {tasks!r}. Write name=PATH with a name of: {', '.join(BENCHMARKS)}, or with one of your own."
        )
    return found, metrics


def _check_slip(typed: str, given: str) -> None:
    """Refuse a name that is almost that of a benchmark, unless its metric is given."""
    has_metric = given.rpartition(":")[2] in METRICS
    known = {
        plain(name) for entry in map(BENCHMARKS.get, BENCHMARKS) for name in (entry.name, entry.title, *entry.files)
    }
    if not has_metric and plain(typed) not in known and get_close_matches(plain(typed), known, 1, 0.85):
        raise InvalidInputError(
            f"{UnknownNameError('benchmark', typed, BENCHMARKS.names())} For questions of your own, choose another name or "
            f"give their metric: {typed}=PATH:answer."
        )


def _existing(name: str, given: str) -> tuple[Path, str]:
    """(path, metric) of PATH or PATH:METRIC; the metric is empty where none is given."""
    path = Path(given).expanduser()
    before, colon, metric = given.rpartition(":")
    if colon and before and not path.exists():
        path = Path(before).expanduser()
        if path.exists():
            METRICS.get(metric)
            return path, metric
    if not given or not path.exists():
        raise InvalidInputError(
            f"Task {name}: the file {given!r} does not exist. Give a .tsv, .csv, .json, .jsonl or .parquet file, or a folder."
        )
    return path, ""
