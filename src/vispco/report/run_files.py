"""`RunFiles`: a run's folder in memory. Each of its files is optional; one that is there must be sound."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vispco.compare.methods import MethodTable, text_rows
from vispco.compare.searches import comparison_table, equal_terms_table
from vispco.compare.searches.search_comparison import Comparison
from vispco.core.errors import InvalidInputError, VispcoError
from vispco.core.runs import files
from vispco.core.runs.checksums import decode_line
from vispco.core.runs.run_folder import RunFolder
from vispco.core.runs.run_record import RunRecord, check_files, check_recorded, record_output
from vispco.evaluation import Evaluation
from vispco.evaluation.frontier import Frontier
from vispco.pruner.search_files import UNPRUNED
from vispco.report.payload import Areas, Bench, Example, Provenance
from vispco.scorers import Chain
from vispco.timing.timing import TIMES

_SEARCHED = "frontier.json"
_SWEPT = ".frontier.json"  # STUDY.frontier.json, written by a sweep
EXAMPLES = "examples.json"
_COMPARED = "comparison.json"
_METHODS = "methods.json"
JOURNAL = "journal.log"  # of sweeps
_RUN = ".run.json"  # STUDY.run.json: how a sweep was called
SEARCH = "vispco-search"  # the format of a search's config.json
_REMEDY = "Write it again, or remove it."


@dataclass(frozen=True)
class RunFiles:
    """The folder of a search, of a sweep, or of both."""

    path: Path
    config: dict[str, Any] = field(default_factory=dict)
    metrics: tuple[dict[str, Any], ...] = ()
    searched: Frontier | None = None
    swept: dict[str, Frontier] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    shapes: tuple[dict[str, Any], ...] = ()
    # what each sweep was of, where its journal is here
    studies: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)  # how each sweep was called, where it says
    comparison: Comparison | None = None
    methods: MethodTable | None = None
    unpruned: Evaluation | None = None
    bench: Any = None
    areas: Any = None

    @property
    def name(self) -> str:
        return str(self.config.get("label") or self.path.resolve().name)

    @property
    def deployable(self) -> bool:
        """Whether `Pruner.from_pretrained` takes this folder."""
        return bool(self.config.get("format") == SEARCH)

    @property
    def joint(self) -> bool:
        """Whether a search chose among several chains of scorers."""
        return bool(self.config.get("mode") == "joint")

    @property
    def space(self) -> str:
        """What the configurations of a joint search are limited to; "full" without a limit."""
        limits = [name for name in ("servable", "cacheable") if self.config.get(name)]
        return " and ".join(limits) or "full"

    def text(self, name: str, study: str | None = None) -> str:
        """A setting of the run, or of one of its sweeps, as a word; a scorer or kernel is known by its name."""
        settings = self.studies.get(study or "", {})
        if name == "scorer" and name not in settings and self.joint:
            return f"the best of {len(self.config.get('scorers') or ())} chains for each input"
        value = settings.get(name, self.config.get(name))
        if isinstance(value, dict) and name == "scorer":  # a chain with its options, as `Chain.of` reads it
            parts = value.get("scorers", [value])
            try:
                value = str(Chain.of(value))
            except VispcoError:  # scorers that are not known here
                value = "+".join(str(each.get("name", "")) for each in parts)
        elif isinstance(value, dict):
            value = value.get("name")
        return "" if value is None else str(value)


def read(path: str | Path) -> RunFiles:
    """A run's folder, or one frontier file (which is taken for a sweep's)."""
    path = Path(path)
    if files.is_file(path):
        name = path.name.removesuffix(".json").removesuffix(".frontier")
        check_recorded(path)
        return RunFiles(path.parent, swept={name: Frontier.load(path)})
    if not path.is_dir():
        raise InvalidInputError(f"There is no run at {path}. Give the folder of a search or a sweep.")
    record = check_files(path)
    swept = {
        file.name.removesuffix(_SWEPT): Frontier.load(file)
        for file in sorted(path.glob(f"*{_SWEPT}"))
        if file.name != _SWEPT
    }
    searched, metrics = path / _SEARCHED, path / "metrics.jsonl"
    lines = (
        files.read_json_lines(metrics, remedy=_REMEDY) if metrics.is_file() else []
    )  # without one that a kill cut short
    found = RunFiles(
        path,
        config=_object(path / "config.json"),
        metrics=tuple(record for record in lines if isinstance(record, dict)),
        searched=Frontier.load(searched) if searched.is_file() else None,
        swept=swept,
        examples=tuple(Example.from_dict(example) for example in _json(path / EXAMPLES) or ()),
        shapes=tuple(_json(path / "shapes.json") or ()),
        studies=_studies(path, record, swept),
        calls={file.name.removesuffix(_RUN): _object(file) for file in sorted(path.glob(f"*{_RUN}"))},
        comparison=Comparison.load(compared) if (compared := path / _COMPARED).is_file() else None,
        methods=MethodTable.load(table) if (table := path / _METHODS).is_file() else None,
        unpruned=None if (whole := _json(path / UNPRUNED)) is None else Evaluation.from_dict(whole),
        bench=_json(path / "bench.json") or _json(path / TIMES),  # a search's own, where `vispco bench` wrote none
        areas=_json(path / "areas.json"),
    )
    if found.searched is None and not swept and found.comparison is None and found.methods is None:
        raise InvalidInputError(
            f"{path} holds neither {_SEARCHED} nor STUDY{_SWEPT} nor {_COMPARED} nor {_METHODS}, so there is nothing to report. "
            "Run `vispco search`, `vispco sweep` or `vispco compare` into it first."
        )
    return found


def save_examples(examples: Sequence[Example], run: str | Path | RunFolder) -> Path:
    """Write them into a run's folder, where `read` finds them; whole or not at all."""
    content = [example.to_dict() for example in examples]
    if isinstance(run, RunFolder):
        return run.write_json(EXAMPLES, content, indent=None)
    path = files.write_json(Path(run) / EXAMPLES, content, indent=None)
    record_output(path)
    return path


def _studies_of(journal: Path) -> dict[str, dict[str, Any]]:
    """Settings of the studies in a sweep's journal (model, scorer, seed, ...), by name.

    Studies are known by their number, so nothing is read behind a damaged line that may have begun one.
    """
    names: list[str] = []
    found: dict[str, dict[str, Any]] = {}
    if not journal.is_file():
        return found
    with journal.open("rb") as lines:
        for line in lines:
            entry = decode_line(line)
            if entry is None:
                operation = line.replace(b" ", b"").removeprefix(b'{"op_code":')[:1]
                if operation.isdigit() and operation != b"0":  # 0 begins a study
                    continue
                break
            try:
                if "study_name" in entry:
                    names.append(str(entry["study_name"]))
                elif "vispco" in entry.get("user_attr", {}):
                    identity = entry["user_attr"]["vispco"]
                    found[names[entry["study_id"]]] = {**identity, **identity.get("fingerprint", {})}
            except (KeyError, IndexError, TypeError, AttributeError):
                continue
    return found


def _studies(folder: Path, record: RunRecord | None, swept: dict[str, Frontier]) -> dict[str, dict[str, Any]]:
    """Settings of the sweeps of a folder. A journal that should say so, and does not, is refused."""
    journal = folder / JOURNAL
    found = _studies_of(journal)
    untold = [name for name in swept if name not in found]
    if record is not None and JOURNAL in record.files and untold:
        raise files.DamagedFileError(
            f"{journal} is damaged: it does not say what the sweep {untold[0]} was of. Restore it, or run the sweep again."
        )
    return found


def _json(path: Path) -> Any:
    return files.read_json(path, remedy=_REMEDY) if path.is_file() else None


def _object(path: Path) -> dict[str, Any]:
    return files.read_json_object(path, remedy=_REMEDY) if path.is_file() else {}


def areas(files: RunFiles) -> Areas:
    try:
        return Areas(files.name, *(tuple(files.areas[key]) for key in ("edges", "before", "after")))
    except (KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{files.path / 'areas.json'} is not what AreaSample.to_dict() gives: {error} is missing."
        ) from error


def bench(files: RunFiles) -> Bench:
    rows = files.bench.get("rows") if isinstance(files.bench, dict) else files.bench
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInputError(f'{files.path / "bench.json"} has no "rows": [{{...}}, ...] to make a table of.')
    flat = [_flat(row) for row in rows]
    columns = tuple(dict.fromkeys(name for row in flat for name in row))
    about = files.bench if isinstance(files.bench, dict) else {}
    size = about.get("batch_size") or (about.get("options") or {}).get("batch_size")
    note = ""
    if isinstance(size, int):
        note = f"Batches of {size}." if size > 1 else "One prompt at a time (batch of 1)."
    return Bench(files.name, columns, tuple(tuple(row.get(name) for name in columns) for row in flat), note)


def comparison(files: RunFiles, found: Comparison) -> list[Bench]:
    """`vispco compare searches`: each search at one budget, and all budgets on equal terms where there are several."""
    shown = {f"at {found.budget:.0%} of FLOPs": comparison_table(found), "on equal terms": equal_terms_table(found)}
    return [
        Bench(f"{files.name}, {what}", tuple(table[0]), tuple(map(tuple, table[1])))
        for what, table in shown.items()
        if table is not None
    ]


def method_tables(files: RunFiles) -> list[Bench]:
    """`vispco compare methods`: as published, at budgets (@), with random schedules, with a search on top (+).

    Two tables that a page is wide enough for: averages and costs, then accuracy by task, whose intervals are in the CSV
    file. None where nothing was compared.
    """
    if files.methods is None:
        return []
    columns, found = text_rows(files.methods)
    rows = [
        [cell.split(" ")[0] if columns[place] in files.methods.tasks else cell for place, cell in enumerate(row)]
        for row in found
    ]
    shown = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    tasks = [place for place in shown if columns[place] in files.methods.tasks]
    parts = {"averages and costs": [place for place in shown if place not in tasks], "accuracy by task, %": [0, *tasks]}
    return [
        Bench(
            f"{files.name}: {name}",
            tuple(columns[place] for place in places),
            tuple(tuple(row[place] for place in places) for row in rows),
        )
        for name, places in parts.items()
    ]


def _flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested objects as columns `outer inner`; of a list, what its numbers are is not shown."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out |= _flat(value, f"{before}{key} ")
        elif isinstance(value, str | int | float | bool) or value is None:
            out[f"{before}{key}"] = value
    return out


def provenance(files: RunFiles) -> list[Provenance]:
    """Of the search, with what its sweeps were of; and of each sweep and comparison that says how."""
    studies = {f"study {name}": settings for name, settings in files.studies.items()}
    found = [_source(name, call, {}) for name, call in files.calls.items()]
    if files.comparison is not None:
        found.append(_source(f"{files.name}, comparison", dict(files.comparison.details), {}))
    if files.methods is not None:
        found.append(_source(f"{files.name}, methods", dict(files.methods.details), {}))
    if files.config or not found:
        return [_source(files.name, files.config, studies), *found]
    return found


def _source(label: str, config: dict[str, Any], more: dict[str, Any]) -> Provenance:
    shown_apart = ("seed", "command", "versions", "machine", "label")
    seed, command = config.get("seed"), config.get("command")
    versions = config.get("versions") or {key: config[key] for key in ("vispco",) if key in config}
    return Provenance(
        label=label,
        seed=seed if isinstance(seed, int) else None,
        command=shlex.join(map(str, command)) if isinstance(command, list) else command,
        versions={key: str(value) for key, value in versions.items()},
        machine=dict(config.get("machine") or {}),
        settings={**{key: value for key, value in config.items() if key not in shown_apart}, **more},
    )
