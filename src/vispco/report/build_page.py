"""`build`: from the folders of runs to the payload of a page; `render` and `write`: from the payload to the page."""

import html
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files as resources
from pathlib import Path

from vispco.compare.searches.comparison_views import CostCurve, equal_terms_rows
from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import write_text
from vispco.evaluation import Evaluation
from vispco.evaluation.frontier import Axis, Frontier, Point
from vispco.evaluation.frontier_tables import verdict
from vispco.report import progress
from vispco.report.payload import (
    Bench,
    BudgetRow,
    Curve,
    MethodRow,
    Payload,
    PointRow,
    Run,
    TaskRow,
)
from vispco.report.run_files import RunFiles, areas, bench, comparison, method_tables, provenance, read
from vispco.report.summary import chain_rows, summarize
from vispco.version import __version__

BUDGETS = tuple(round(0.1 + 0.05 * step, 2) for step in range(17))
_METHOD_BUDGETS = (0.25, 0.5, 0.75)
_PLACES = 4  # digits of a dominated schedule, which is only drawn; those of the frontier stay exact


def build(
    runs: Sequence[str | Path],
    *,
    title: str | None = None,
    budgets: Sequence[float] = BUDGETS,
    cost_model: str | None = None,
) -> Payload:
    """Everything that these runs can show. What a run has no file for is left out.

    cost_model: whose FLOPs are shown; by default `exact`, or what all points have.
    """
    if not runs:
        raise InvalidInputError("No run was given. Give the folder of at least one search or sweep.")
    folders = [read(path) for path in runs]
    named = _named(folders)
    compared = any(files.methods is not None or files.comparison is not None for files in folders)
    chosen = cost_model or _common_cost([frontier for _, _, frontier, _ in named], may_be_none=compared)
    axis = Axis(chosen, "fraction")
    entries = [(files, label, frontier.on(axis), kind) for files, label, frontier, kind in named]
    shown = tuple(_run(*entry) for entry in entries)
    owners = _owners(entries)
    pictures = tuple(replace(one, run=label) for files, label in owners for one in files.examples)
    summaries = (summarize(files, label, line, pictures) for files, label, line, kind in entries if kind == "searched")
    return Payload(
        title=title or _title(shown, folders),
        cost_model=chosen,
        runs=shown,
        budgets=tuple(
            BudgetRow(budget, tuple(_choice(frontier, budget) for _, _, frontier, _ in entries)) for budget in budgets
        ),
        summary=next((one for one in summaries if one is not None), None),  # of the first search that has one
        examples=pictures,
        convergence=tuple(replace(one, run=label) for files, label in owners for one in progress.convergence(files)),
        hypervolume=(curves := _curves(entries)),
        equal_terms=tuple(_equal_terms(curves)),
        spaces=_spaces(entries, budgets),
        method_budgets=_METHOD_BUDGETS,
        methods=_methods(entries),
        areas=tuple(areas(files) for files in folders if files.areas is not None),
        comparisons=tuple(table for f in folders if f.comparison is not None for table in comparison(f, f.comparison)),
        published=tuple(table for files in folders for table in method_tables(files)),
        bench=tuple(bench(files) for files in folders if files.bench is not None),
        provenance=tuple(source for files in folders for source in provenance(files)),
        vispco=__version__,
        created=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    )


def _choice(frontier: Frontier, budget: float) -> int | None:
    """The place of what a frontier picks at a budget; None where nothing is that cheap."""
    point = progress.picked(frontier, budget)
    return None if point is None else next(place for place, each in enumerate(frontier.points) if each is point)


_Named = tuple[RunFiles, str, Frontier, str]


def _named(folders: list[RunFiles]) -> list[_Named]:
    """Every frontier with a label that no other has."""
    found: list[_Named] = []
    for files in folders:
        if files.searched is not None:
            found.append((files, files.name, files.searched, "searched"))
        found += [(files, study, frontier, "empirical") for study, frontier in files.swept.items()]
    labels = [label for _, label, _, _ in found]
    unique: list[_Named] = []
    for files, label, frontier, kind in found:
        parent = files.path.resolve().name
        full = label if labels.count(label) == 1 else f"{parent}/{label}"
        number = sum(known.split(" #")[0] == full for _, known, _, _ in unique)
        unique.append((files, f"{full} #{number + 1}" if number else full, frontier, kind))
    return unique


def _common_cost(frontiers: list[Frontier], *, may_be_none: bool = False) -> str:
    """The cost that all points have. may_be_none: there is something else to show than points."""
    points = [point for frontier in frontiers for point in frontier]
    if not points and may_be_none:
        return "exact"
    if not points:
        raise InvalidInputError("These runs have no evaluated points yet, so there is nothing to show.")
    shared = set.intersection(*({*point.evaluation.fraction} for point in points))
    if not shared:
        raise InvalidInputError("These runs share no cost model, so they have no common axis. Report them apart.")
    return "exact" if "exact" in shared else min(shared)


def _run(files: RunFiles, label: str, frontier: Frontier, kind: str) -> Run:
    front = {id(point) for point in frontier.front}
    whole = files.unpruned if kind == "searched" else None
    return Run(
        label=label,
        kind=kind,
        points=tuple(_row(point, frontier.axis.model, exact=id(point) in front) for point in frontier),
        frontier=tuple(place for place, point in enumerate(frontier) if id(point) in front),
        model=files.text("model", label.rpartition("/")[2]),
        scorer=files.text("scorer", label.rpartition("/")[2]),
        kernel=files.text("kernel") if kind == "searched" else "",
        solver=files.text("solver") if kind == "searched" else files.text("strategy", label.rpartition("/")[2]),
        unpruned=None if whole is None else whole.accuracy,
        unpruned_tasks=() if whole is None else _tasks(whole),
        verdict="" if whole is None or not frontier.points else verdict(frontier, whole, frontier.axis.model),
        folder=str(files.path) if kind == "searched" and files.deployable else "",
    )


def _tasks(found: Evaluation) -> tuple[TaskRow, ...]:
    return tuple(TaskRow(task.task, task.accuracy, task.n) for task in found.tasks)


def _row(point: Point, model: str, *, exact: bool) -> PointRow:
    found, schedule = point.evaluation, point.schedule
    rows = schedule.tensor().reshape(-1, schedule.num_layers)
    retention = tuple(rows.mean(0).tolist())
    items = sum(task.n for task in found.tasks)
    return PointRow(
        fraction=found.fraction[model],
        prefill=found.fraction.get("prefill"),
        asked=str(point.provenance.get("asked") or ""),
        tower=schedule.tower or (),
        **{name: getattr(found, name) for name in ("accuracy", "low", "high", "kl")},
        retention=retention if exact else tuple(round(value, _PLACES) for value in retention),
        flops=found.flops.get(model),
        seconds=found.seconds / items if found.seconds > 0 and items else None,
        samples=len(rows) if schedule.per_sample else point.mean_of,
        name=str(point.provenance.get("config") or point.provenance.get("trial") or ""),
        budget=progress.number(point.provenance.get("budget")),
        chains=chain_rows(point.provenance.get("methods"), schedule),
        tasks=_tasks(found) if exact else (),
    )


def _title(runs: tuple[Run, ...], folders: list[RunFiles]) -> str:
    tables = [found for files in folders for found in (files.methods, files.comparison) if found is not None]
    named = [*(run.model for run in runs), *(str(found.details.get("model") or "") for found in tables)]
    models = list(dict.fromkeys(name for name in named if name))
    return " and ".join(models) if models else runs[0].label if runs else folders[0].name


def _owners(entries: list[_Named]) -> list[tuple[RunFiles, str]]:
    """Each folder once, with the label of its search, or else of its first sweep."""
    first: dict[int, tuple[RunFiles, str]] = {}
    for files, label, _, _ in sorted(entries, key=lambda entry: entry[3] != "searched"):
        first.setdefault(id(files), (files, label))
    return [first[key] for key in dict.fromkeys(id(files) for files, _, _, _ in entries)]


def _curves(entries: list[_Named]) -> tuple[Curve, ...]:
    curves = [
        progress.searched_curve(files, label, frontier) if kind == "searched" else progress.swept_curve(label, frontier)
        for files, label, frontier, kind in entries
    ]
    return tuple(curve for curve in curves if curve is not None)


def _equal_terms(curves: tuple[Curve, ...]) -> list[Bench]:
    """For each search: what every sweep had found at its cost, and what it had spent when it had found as much.

    By FLOPs where both were counted, else by seconds.
    """
    tables = []
    for own in curves:
        if own.kind != "searched":
            continue
        for price, name in (("flops", "FLOPs"), ("cost", "seconds")):
            others = [c for c in curves if c.kind == "empirical" and getattr(c, price)]
            if getattr(own, price) and others:
                shown = [CostCurve(c.label, getattr(c, price), c.value) for c in (own, *others)]
                columns, rows = equal_terms_rows(shown[0], shown[1:], name)
                tables.append(Bench(own.label, columns, rows))
                break
    return tables


def _spaces(entries: list[_Named], budgets: Sequence[float]) -> tuple[Bench, ...]:
    """For each model with joint searches of several spaces: what each of them reaches at a budget, side by side."""
    by_model: dict[str, list[_Named]] = {}
    for entry in entries:
        if entry[3] == "searched" and entry[0].joint:
            by_model.setdefault(entry[0].text("model"), []).append(entry)
    tables = []
    for model, found in by_model.items():
        if len({files.space for files, _, _, _ in found}) < 2:
            continue
        columns = ("FLOPs, %", *(f"{files.space} ({label}), %" for files, label, _, _ in found))
        rows = []
        for budget in budgets:
            picked = [(frontier, _choice(frontier, budget)) for _, _, frontier, _ in found]
            cells = ["" if at is None else f"{100 * front.points[at].evaluation.accuracy:.1f}" for front, at in picked]
            rows += [(f"{100 * budget:g}", *cells)] if any(cells) else []
        volumes = [f"{frontier.hypervolume():.3f}" for _, _, frontier, _ in found]
        tables.append(Bench(model, columns, (*rows, ("hypervolume", *volumes))))
    return tuple(tables)


def _methods(entries: list[_Named]) -> tuple[MethodRow, ...]:
    rows = []
    for entry in entries:
        files, label, frontier, kind = entry
        rivals = [rival[2] for rival in entries if rival[3] == "empirical" and _comparable(entry, rival, entries)]
        whole = rivals[0].merge(*rivals[1:]).hypervolume(progress.WHOLE) if rivals else 0.0
        picks = [_choice(frontier, budget) for budget in _METHOD_BUDGETS]
        own = frontier.hypervolume(progress.WHOLE)
        timed = sum(point.evaluation.seconds for point in frontier) or None
        counted = sum(progress.evaluation_flops(point, frontier) for point in frontier) or None
        rows.append(
            MethodRow(
                label,
                kind,
                len(frontier),
                own,
                tuple(None if place is None else frontier.points[place].accuracy for place in picks),
                own / whole if whole > 0 else None,
                progress.search_seconds(files) if kind == "searched" else timed,
                progress.search_flops(files) if kind == "searched" else counted,
            )
        )
    return tuple(rows)


def _comparable(one: _Named, other: _Named, everyone: list[_Named]) -> bool:
    """Of the same model and scorer, as far as both are known; where one is not, only if the page knows a single one."""
    if not one[2].points or not other[2].points:
        return False
    if one[2].points[0].schedule.num_layers != other[2].points[0].schedule.num_layers:
        return False
    any_scorer = one[0].joint or other[0].joint  # a joint search had all of them to choose from
    for name in ("model",) if any_scorer else ("model", "scorer"):
        known = [files.text(name, label.rpartition("/")[2]) for files, label, _, _ in (one, other)]
        all_known = {files.text(name, label.rpartition("/")[2]) for files, label, _, _ in everyone} - {""}
        if known[0] != known[1] and (all(known) or len(all_known) > 1):
            return False
    return True


_STYLES = ("tokens", "layout", "controls", "figures", "survivors")
_SCRIPTS = (
    "dom",
    "format",
    "state",
    "chart",
    "tooltip",
    "frontier",
    "schedule",
    "survivors",
    "card",
    "lines",
    "histogram",
    "tables",
    "copy",
    "main",
)


def write(report: Payload | Sequence[str | Path] | str | Path, path: str | Path) -> Path:
    """Write the page of a payload, or of the runs in these folders, to `path`; the file appears whole or not at all."""
    if isinstance(report, str | Path):
        report = [report]
    payload = report if isinstance(report, Payload) else build(report)
    return write_text(path, render(payload))


def render(payload: Payload) -> str:
    """The page as text."""
    data = json.dumps(payload.to_dict(), allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    parts = {
        "title": html.escape(payload.title),
        "style": "\n".join(_asset(f"assets/{name}.css") for name in _STYLES),
        "script": "\n".join(_asset(f"assets/{name}.js") for name in _SCRIPTS),
        "payload": data.replace("<", "\\u003c"),  # a question may hold </script>
    }
    page = _asset("page.html")
    first, *rest = page.split("{{")
    pieces = [first]  # one pass, so that what is put in is never parsed again
    for part in rest:
        name, after = part.split("}}", 1)
        pieces += [parts[name], after]
    return "".join(pieces)


@cache
def _asset(name: str) -> str:
    return resources("vispco.report").joinpath(name).read_text(encoding="utf-8")
