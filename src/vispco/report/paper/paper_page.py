"""Writes what `vispco paper` measured: one page with tables and figures, and the same as JSON, CSV and LaTeX."""

import base64
import csv
import html
import io
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from vispco.compare.methods.views import latex_escaped
from vispco.core.runs import files
from vispco.core.runs.provenance import machine, versions
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.frontier_tables import Table
from vispco.report.paper.paper_steps import JOINT, KERNELS, METHODS, kernel_folder, searched_folder
from vispco.report.paper.paper_tables import PaperRuns, models_table
from vispco.report.plots import (
    configurations_info,
    draw_configurations,
    draw_frontiers,
    draw_retention,
    draw_survivors,
    frontiers_info,
    retention_by_budget_info,
    retention_by_kernel_info,
    survivors_info,
)

_PAGE = "paper.html"
_STYLE = """:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;white-space:nowrap}th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8884}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}figure{margin:1rem 0}img{max-width:100%;background:#fff}
.yes{color:#2a7d2a}.no{color:#b3261e}"""


def write_paper(models: Sequence[tuple[str, Path]], out: Path, done: Sequence[dict[str, Any]] = ()) -> Path:
    """Write paper.html, .json and .tex, a CSV file for each table, and the figures.

    models: names with their folders. done: the commands that were run, with their times.
    """
    runs = [PaperRuns(name, folder) for name, folder in models]
    side_by_side = {"Table 3. Models at 50% of the FLOPs": models_table(runs)}
    about: dict[str, Any] = {}
    data = {
        "versions": versions(),
        "machine": machine(),
        "commands": list(done),
        "models": about,
        "tables": _plain(side_by_side),
    }
    parts = [_tables_html(side_by_side)] if len(runs) > 1 else []
    latex = [_latex(title, table) for title, table in side_by_side.items()]
    if len(runs) > 1:
        by_model = draw_frontiers(frontiers_info({each.model: each.grid for each in runs}, "model"), out / "figures" / "by-model.png")  # fmt: skip
        parts.append(_figure_html(by_model, "Figure 1 (b). The grid's frontier of each model."))
    _write_csv(out, "", side_by_side)
    for each in runs:
        tables, statements = each.tables(), each.statements()
        figures = _figures(each, out / "figures" / each.folder.name)
        parts.append(f"<h2>{html.escape(each.model)}</h2><p>{html.escape(each.summary())}</p><ul>")
        parts += [f'<li class="{s.holds.split()[0]}">{html.escape(str(s))}</li>' for s in statements]
        parts += ["</ul>", _tables_html(tables), *(_figure_html(path, caption) for path, caption in figures)]
        latex += [f"% {each.model}", *(_latex(title, table) for title, table in tables.items())]
        _write_csv(out, each.folder.name, tables)
        claims = list(map(asdict, statements))
        about[each.model] = {"summary": each.summary(), "tables": _plain(tables), "statements": claims}
    files.write_json(out / "paper.json", data)
    files.write_text(out / "paper.tex", "\n\n".join([*latex, ""]))
    names = ", ".join(each.model for each in runs)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>VisPCO on {html.escape(names)}</title><style>{_STYLE}</style>'
    intro = (
        "<p>The paper's tables and figures, measured on this model. Budgets are fractions of the language model's FLOPs, "
        "scoring included. Means over sampled configurations have their standard deviation, all others a 95 % interval.</p>"
    )
    return files.write_text(out / _PAGE, "\n".join([head, f"<h1>VisPCO on {html.escape(names)}</h1>", intro, *parts]))


def _figures(runs: PaperRuns, folder: Path) -> list[tuple[Path, str]]:
    """The paper's figures of one model, with captions."""
    published = runs.frontier(searched_folder("fastv"))
    kernels = {name: runs.frontier(kernel_folder(name)) for name in KERNELS}
    by_method = {name: runs.frontier(searched_folder(name)) for name in METHODS}
    found = [
        (draw_configurations(configurations_info(runs.grid, published), folder / "configurations.png"),
         "Figures 1 (a) and 3, left. All configurations of the single-layer grid, and the frontier that VisPCO predicts."),
        (draw_frontiers(frontiers_info({**by_method, "joint search": runs.frontier(JOINT)}, "method"), folder / "by-method.png"),
         "Figure 1 (c). Searched frontiers of each method, and of the joint search."),
        (draw_frontiers(frontiers_info(_by_task(runs.grid), "task"), folder / "by-task.png"),
         "Figure 1 (d). The grid's frontier of each task."),
        (draw_frontiers(frontiers_info(kernels, "curves"), folder / "by-kernel.png"),
         "Figure 3, right. Searched frontiers of each family of curves."),
    ]  # fmt: skip
    curves = {
        "retention-by-kernel": (
            retention_by_kernel_info(kernels),
            "What each family of curves keeps at half of the FLOPs.",
        ),
        "retention-by-budget": (retention_by_budget_info(published), "What is kept at each budget."),
    }
    for name, (info, caption) in curves.items():
        if info.curves:  # none where every budget lies under the floor
            found.append((draw_retention(info, folder / f"{name}.png"), f"Appendix. {caption}"))
    for number, example in enumerate(runs.runs[searched_folder("fastv")].examples[:2]):
        path = draw_survivors(survivors_info(example), folder / f"case-{number + 1}.png")
        found.append((path, "Case study. Surviving tokens by budget and layer."))
    return found


def _by_task(frontier: Frontier) -> dict[str, Frontier]:
    """The same points with the accuracy of one task alone, for each task."""
    names = [task.task for task in frontier.points[0].evaluation.tasks]
    found = {}
    for place, name in enumerate(names):
        points = []
        for point in frontier.points:
            task = point.evaluation.tasks[place]
            only = replace(point.evaluation, tasks=(task,), accuracy=task.accuracy, low=task.low, high=task.high)
            points.append(replace(point, evaluation=only))
        found[name] = Frontier(points, axis=frontier.axis)
    return found


def _plain(tables: dict[str, Table]) -> dict[str, dict[str, object]]:
    return {title: {"columns": columns, "rows": rows} for title, (columns, rows) in tables.items()}


def _tables_html(tables: dict[str, Table]) -> str:
    parts = []
    for title, (columns, rows) in tables.items():
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        parts.append(f'<h3>{html.escape(title)}</h3><div class="wide"><table><tr>{head}</tr>{body}</table></div>')
    return "\n".join(parts)


def _figure_html(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    text = html.escape(caption)
    return f'<figure><img src="data:image/png;base64,{data}" alt="{text}"><figcaption>{text}</figcaption></figure>'


def _latex(title: str, table: Table) -> str:
    columns, rows = table
    lines = [f"% {title}", rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}", r"\toprule"]
    lines.append(" & ".join(map(latex_escaped, columns)) + r" \\ \midrule")
    lines += [" & ".join(map(latex_escaped, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _write_csv(out: Path, model: str, tables: dict[str, Table]) -> None:
    for title, (columns, rows) in tables.items():
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows([columns, *rows])
        name = title.split(".")[0].lower().replace(" ", "-")
        files.write_text(out / f"{'-'.join(filter(None, (model, name)))}.csv", stream.getvalue())
