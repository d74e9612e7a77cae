"""A table of methods as text: for the screen and the page, as CSV, and as LaTeX."""

import csv
import io
from dataclasses import fields, replace
from typing import Any

from vispco.compare.methods.table import FILE, MethodTable, MethodTableRow
from vispco.core.runs.files import write_text
from vispco.core.runs.run_folder import RunFolder
from vispco.evaluation.leaderboard import LeaderboardEntry

_COLUMNS = (
    "method",
    "average, %",
    "Δ",
    "loyal, %",
    "hard, %",
    "2nd turn, %",
    "FLOPs, %",
    "whole, %",
    "KV, KiB",
    "tokens",
    "ms",
    "×",
)
_LATEX_COLUMNS = ("method", "average, %", "Δ", "loyal, %", "FLOPs, %", "KV, KiB", "ms", "×")


def text_rows(table: MethodTable, against: str = "unpruned") -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """(columns, rows): percentages for accuracies, FLOPs of the language model and of the whole prefill, KiB for the
    cache, tokens of a mean layer's input, time to the first token and how many times faster it comes. A method is as
    published, at a budget (@), with random schedules, or with compensation or a search on top (+). A ! stands at a
    budget that lies under the method's floor. Behind a mean over draws stands their standard deviation, behind all
    others the 95 % interval. Δ: points more than `against` on the same items, with the paired 95 % interval; a ~ says
    that it is within noise (see `vispco.evaluation.paired`).
    """
    paired = table.paired(against)
    columns = (*_COLUMNS, *table.tasks)
    deltas = {label: difference.text for label, difference in paired.items()}
    return columns, tuple(_text(row, table.tasks, deltas.get(row.label, "")) for row in table.rows)


def write_table(table: MethodTable, folder: RunFolder, facts: dict[str, Any], against: str) -> MethodTable:
    """Write methods.json, .csv and .tex, and the leaderboard entry. Gives the table with its paired differences.

    facts: what it depends on and how it was made, as the details of the table and of the entry.
    """
    compared = {label: each.to_dict() for label, each in table.paired(against).items()}
    details = {**table.details, **facts}
    found = replace(table, details={**details, "paired": {"against": against, "rows": compared}})
    found.save(folder.file(FILE))
    write_text(folder.file("methods.csv"), csv_text(found))
    write_text(folder.file("methods.tex"), latex_text(found, against))
    tasks = {task: len(scores) for task, scores in found.rows[0].scores.items()}
    methods = ",".join(dict.fromkeys(row.method for row in found.rows if row.kind != "unpruned"))
    details["options"] = {**details["options"], "methods": methods}  # also those of earlier calls
    LeaderboardEntry.of_run("compare methods", details["model"], found.rows, tasks, details).write(folder)
    return found


def csv_text(table: MethodTable) -> str:
    """All numbers as they are, one line a row; three columns for each task: accuracy and the ends of its interval."""
    names = [each.name for each in fields(MethodTableRow) if each.name not in ("tasks", "scores")]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*names, *(f"{part} {task}" for task in table.tasks for part in ("accuracy", "low", "high"))])
    for row in table.rows:
        by_task = [value for task in table.tasks for value in row.tasks.get(task, (None, None, None))]
        writer.writerow([*(getattr(row, name) for name in names), *by_task])  # None is written as nothing
    return stream.getvalue()


def latex_text(table: MethodTable, against: str = "unpruned") -> str:
    """A `tabular` for booktabs that fits a column: eight columns, a rule between methods, the best of each budget in
    bold.

    Accuracies by task are in the CSV file. A ~ behind a difference says that it is within noise.
    """
    columns, rows = text_rows(table, against)
    places = [columns.index(name) for name in _LATEX_COLUMNS if any(row[columns.index(name)] for row in rows)]
    best = _best(table)
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (len(places) - 1)}}}",
        r"\toprule",
        " & ".join(latex_escaped(columns[place]) for place in places) + r" \\",
    ]
    before = None
    for cells, row in zip(rows, table.rows, strict=True):
        lines += [r"\midrule"] if row.method != before else []
        shown = [latex_escaped(cells[place]) for place in places]
        if row.key in best:
            shown[1] = rf"\textbf{{{shown[1]}}}"
        lines.append(" & ".join(shown) + r" \\")
        before = row.method
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _best(table: MethodTable) -> set[tuple[str, str, float | None]]:
    """The keys of the most accurate rows of each budget, ties included."""
    found: set[tuple[str, str, float | None]] = set()
    for budget in {row.budget for row in table.rows if row.budget is not None}:
        own = [row for row in table.rows if row.budget == budget and row.accuracy is not None]
        most = max((row.accuracy for row in own if row.accuracy is not None), default=None)
        found |= {row.key for row in own if row.accuracy == most}
    return found


def _text(row: MethodTableRow, tasks: tuple[str, ...], delta: str) -> tuple[str, ...]:
    if row.accuracy is None:
        return (row.label, row.note.split(":")[0], *[""] * (len(_COLUMNS) - 2 + len(tasks)))
    interval = "" if row.low is None or row.high is None else f"[{100 * row.low:.1f}, {100 * row.high:.1f}]"
    by_task = (row.tasks.get(task) for task in tasks)
    interval = interval if row.deviation is None else f"±{100 * row.deviation:.1f}"
    return (
        row.label,
        f"{100 * row.accuracy:.1f} {interval}",
        delta,
        _percent(row.loyalty),
        _percent(row.hard_accuracy),
        _percent(row.second_turn),
        _percent(row.fraction) + ("!" if "floor" in row.note else ""),
        _percent(row.prefill),
        "" if row.kv_bytes is None else f"{row.kv_bytes / 1024:.1f}",
        "" if row.mean_inputs is None else f"{row.mean_inputs:.1f}",
        "" if row.milliseconds is None else f"{row.milliseconds:.1f}",
        "" if row.speedup is None else f"{row.speedup:.2f}",
        # in whole per cents: there are few items of one task
        *(
            "" if each is None else "{:.1f} [{:.0f}, {:.0f}]".format(*(100 * value for value in each))
            for each in by_task
        ),
    )


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "Δ": r"$\Delta$",
    **{letter: "\\" + letter for letter in "&%#_$"},
}
"""What the letters with a meaning of their own are written as, and those that not every font has."""


def latex_escaped(text: str) -> str:
    """Text with every letter that LaTeX reads as a command written out."""
    return "".join(_LATEX.get(letter, letter) for letter in text)
