"""`build`: from the folders of runs to the payload of a page; `render` and `write`: from the payload to the page."""

import html
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class _Entry:
    """A frontier of a folder, with a label that no other has: of its search, or of one of its sweeps."""

    files: RunFiles
    label: str
    frontier: Frontier
    kind: str

    @property
    def searched(self) -> bool:
        return self.kind == "searched"

    def text(self, name: str) -> str:
        """A setting of the sweep or of its folder, as a word."""
        return self.files.text(name, self.label.rpartition("/")[2])


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
    chosen = cost_model or _common_cost([each.frontier for each in named], may_be_none=compared)
    entries = [replace(each, frontier=each.frontier.on(Axis(chosen, "fraction"))) for each in named]
    shown = tuple(map(_run, entries))
    by_folder: dict[int, _Entry] = {}
    for entry in entries:
        by_folder.setdefault(id(entry.files), entry)
    owners = by_folder.values()  # of each folder its search, which comes first, or else its first sweep
    pictures = tuple(replace(one, run=each.label) for each in owners for one in each.files.examples)
    summaries = (summarize(each.files, each.label, each.frontier, pictures) for each in entries if each.searched)
    curves = [
        progress.searched_curve(each.files, each.label, each.frontier)
        if each.searched
        else progress.swept_curve(each.label, each.frontier)
        for each in entries
    ]
    hypervolume = tuple(curve for curve in curves if curve is not None)
    return Payload(
        title=title or _title(shown, folders),
        cost_model=chosen,
        runs=shown,
        budgets=tuple(
            BudgetRow(budget, tuple(_choice(each.frontier, budget) for each in entries)) for budget in budgets
        ),
        summary=next((one for one in summaries if one is not None), None),  # of the first search that has one
        examples=pictures,
        convergence=tuple(replace(one, run=each.label) for each in owners for one in progress.convergence(each.files)),
        hypervolume=hypervolume,
        equal_terms=tuple(_equal_terms(hypervolume)),
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


def _named(folders: list[RunFiles]) -> list[_Entry]:
    """Every frontier with a label that no other has."""
    found: list[_Entry] = []
    for files in folders:
        if files.searched is not None:
            found.append(_Entry(files, files.name, files.searched, "searched"))
        found += [_Entry(files, study, frontier, "empirical") for study, frontier in files.swept.items()]
    labels = [each.label for each in found]
    unique: list[_Entry] = []
    for each in found:
        parent = each.files.path.resolve().name
        full = each.label if labels.count(each.label) == 1 else f"{parent}/{each.label}"
        number = sum(known.label.split(" #")[0] == full for known in unique)
        unique.append(replace(each, label=f"{full} #{number + 1}" if number else full))
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


def _run(entry: _Entry) -> Run:
    files, frontier, searched = entry.files, entry.frontier, entry.searched
    front = {id(point) for point in frontier.front}
    whole = files.unpruned if searched else None
    return Run(
        label=entry.label,
        kind=entry.kind,
        points=tuple(_row(point, frontier.axis.model, exact=id(point) in front) for point in frontier),
        frontier=tuple(place for place, point in enumerate(frontier) if id(point) in front),
        model=entry.text("model"),
        scorer=entry.text("scorer"),
        kernel=files.text("kernel") if searched else "",
        solver=files.text("solver") if searched else entry.text("strategy"),
        unpruned=None if whole is None else whole.accuracy,
        unpruned_tasks=() if whole is None else _tasks(whole),
        verdict="" if whole is None or not frontier.points else verdict(frontier, whole, frontier.axis.model),
        folder=str(files.path) if searched and files.deployable else "",
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


def _spaces(entries: list[_Entry], budgets: Sequence[float]) -> tuple[Bench, ...]:
    """For each model with joint searches of several spaces: what each of them reaches at a budget, side by side."""
    by_model: dict[str, list[_Entry]] = {}
    for entry in entries:
        if entry.searched and entry.files.joint:
            by_model.setdefault(entry.files.text("model"), []).append(entry)
    tables = []
    for model, found in by_model.items():
        if len({each.files.space for each in found}) < 2:
            continue
        columns = ("FLOPs, %", *(f"{each.files.space} ({each.label}), %" for each in found))
        rows = []
        for budget in budgets:
            points = [progress.picked(each.frontier, budget) for each in found]
            cells = ["" if point is None else f"{100 * point.evaluation.accuracy:.1f}" for point in points]
            rows += [(f"{100 * budget:g}", *cells)] if any(cells) else []
        volumes = [f"{each.frontier.hypervolume():.3f}" for each in found]
        tables.append(Bench(model, columns, (*rows, ("hypervolume", *volumes))))
    return tuple(tables)


def _methods(entries: list[_Entry]) -> tuple[MethodRow, ...]:
    rows = []
    for entry in entries:
        frontier = entry.frontier
        rivals = [each.frontier for each in entries if not each.searched and _comparable(entry, each, entries)]
        whole = rivals[0].merge(*rivals[1:]).hypervolume(progress.WHOLE) if rivals else 0.0
        picks = [progress.picked(frontier, budget) for budget in _METHOD_BUDGETS]
        own = frontier.hypervolume(progress.WHOLE)
        timed = sum(point.evaluation.seconds for point in frontier) or None
        counted = sum(progress.evaluation_flops(point, frontier) for point in frontier) or None
        rows.append(
            MethodRow(
                entry.label,
                entry.kind,
                len(frontier),
                own,
                tuple(None if point is None else point.accuracy for point in picks),
                own / whole if whole > 0 else None,
                progress.search_seconds(entry.files) if entry.searched else timed,
                progress.search_flops(entry.files) if entry.searched else counted,
            )
        )
    return tuple(rows)


def _comparable(one: _Entry, other: _Entry, everyone: list[_Entry]) -> bool:
    """Of the same model and scorer, as far as both are known; where one is not, only if the page knows a single one."""
    if not one.frontier.points or not other.frontier.points:
        return False
    if one.frontier.points[0].schedule.num_layers != other.frontier.points[0].schedule.num_layers:
        return False
    any_scorer = one.files.joint or other.files.joint  # a joint search had all of them to choose from
    for name in ("model",) if any_scorer else ("model", "scorer"):
        known = [one.text(name), other.text(name)]
        all_known = {each.text(name) for each in everyone} - {""}
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
