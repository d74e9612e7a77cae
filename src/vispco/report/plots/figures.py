"""`figures`: every figure of the paper that these runs have the data for, into one folder."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from vispco.compare.searches import search_cost_info as comparison_info
from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.core.runs.run_record import check_output, record_output
from vispco.report.plots.areas import areas_info, draw_areas
from vispco.report.plots.frontiers import configurations_info, draw_configurations, draw_frontiers, frontiers_info
from vispco.report.plots.methods import draw_methods, methods_info
from vispco.report.plots.retention import draw_retention, retention_by_budget_info, retention_by_kernel_info
from vispco.report.plots.search_cost import draw_search_cost, draw_searches, search_cost_info
from vispco.report.plots.style import CREATOR, SUFFIXES
from vispco.report.plots.survivors import draw_survivors, survivors_info
from vispco.report.progress import search_seconds
from vispco.report.run_files import RunFiles, areas, read


def figures(runs: Sequence[str | Path], into: str | Path, suffix: str = "png") -> list[Path]:
    """Draw them; gives the files written. A figure that no run has data for is left out.

    A file that has the name of a figure and was not written by vispco is refused, before anything is drawn.
    """
    ending = f".{suffix.lower().removeprefix('.')}"
    if ending not in SUFFIXES:
        raise InvalidInputError(
            f"Figures were asked for as {suffix!r}. Ask for png, svg or pdf.{did_you_mean(ending, SUFFIXES)}"
        )
    if not runs:
        raise InvalidInputError("No run was given. Give the folder of at least one search or sweep.")
    plan = _planned([read(path) for path in runs])
    if not plan:
        named = ", ".join(map(str, runs))
        raise InvalidInputError(f"{named}: no figure can be drawn of what is there. Give a folder with points to draw.")
    folder = Path(into)
    for name in plan:
        check_output(folder / f"{name}{ending}", CREATOR)
    drawn = [draw(folder / f"{name}{ending}") for name, draw in plan.items()]
    for path in drawn:
        record_output(path)
    return drawn


def _planned(runs: list[RunFiles]) -> dict[str, Callable[[Path], Path]]:
    """The figures that can be drawn, by file name."""
    plan: dict[str, Callable[[Path], Path]] = {}
    several = len(runs) > 1
    for run in runs:
        tail = f"-{run.path.resolve().name}" if several else ""
        swept_beside = [each for other in runs if other is run or _alike(run, other) for each in other.swept.values()]
        everything = swept_beside[0].merge(*swept_beside[1:]) if swept_beside else None
        best = run.searched if run.searched is not None else everything
        covered = run.searched is None and any(other.searched and _alike(run, other) for other in runs)
        # a sweep is drawn with the searches of its model and scorer, and alone where there are none
        if best is not None and best.points and not covered:
            plan[f"configurations{tail}"] = partial(draw_configurations, configurations_info(everything, run.searched))
        if best is not None and (curves := retention_by_budget_info(best)).curves:
            plan[f"retention-by-budget{tail}"] = partial(draw_retention, curves)
        for number, example in enumerate(run.examples):
            kept = survivors_info(example)
            plan[f"survivors{tail}-{number}"] = partial(draw_survivors, kept)
        if run.areas is not None:
            plan[f"areas{tail}"] = partial(draw_areas, areas_info(areas(run)))
        if run.comparison is not None:
            plan[f"search-cost{tail}"] = partial(draw_searches, comparison_info(run.comparison))
        if run.methods is not None and (table := methods_info(run.methods)).methods:
            plan[f"methods{tail}"] = partial(draw_methods, table)
    for by in ("model", "scorer", "kernel"):
        named = [(run.text(by), run.searched) for run in runs if run.searched is not None and run.text(by)]
        grouped = dict(named)
        if len(grouped) < len(named):
            continue  # runs that do not differ in it
        if len(grouped) > 1:
            lines = frontiers_info(grouped, by)
            plan[f"frontiers-by-{by}"] = partial(draw_frontiers, lines)
        if len(grouped) > 1 and by == "kernel" and (shapes := retention_by_kernel_info(grouped)).curves:
            plan["retention-by-kernel"] = partial(draw_retention, shapes)
    timed = {run.name: (run.searched, seconds) for run in runs if run.searched and (seconds := search_seconds(run))}
    swept = {study: frontier for run in runs for study, frontier in run.swept.items()}
    cost = search_cost_info(swept, timed)
    if cost.lines:
        plan["accuracy-by-search-cost"] = partial(draw_search_cost, cost)
    return plan


def _alike(one: RunFiles, other: RunFiles) -> bool:
    """Whether both tell the same model and scorer."""
    return all(
        _known_values(one, name) and _known_values(one, name) == _known_values(other, name)
        for name in ("model", "scorer")
    )


def _known_values(run: RunFiles, name: str) -> set[str]:
    return {run.text(name, study) for study in (*run.swept, None)} - {""}
