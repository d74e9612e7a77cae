"""A table of methods as text: for the screen and the page, as CSV, and as LaTeX."""

from __future__ import annotations

import csv
import io
from dataclasses import fields

from vispco.compare.methods.table import MethodTable, MethodTableRow

_SUFFIXES = {"sampled": " random", "compensated": " + compensation", "searched": " + search"}
_COLUMNS = ("method", "average, %", "loyal, %", "hard, %", "FLOPs, %", "KV, KiB", "tokens", "ms", "×")


def text_rows(table: MethodTable) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """(columns, rows): percentages for accuracies and FLOPs, KiB for the cache, tokens of a mean layer's input, time to the
    first token and how many times faster it comes. A method is as published, at a budget (@), with random schedules, or with
    compensation or a search on top (+). A ! stands at a budget that lies under the method's floor. Behind a mean over draws stands their
    standard deviation, behind all others the 95 % interval.
    """
    columns = (*_COLUMNS, *table.tasks)
    return columns, tuple(_text(row, table.tasks) for row in table.rows)


def csv_text(table: MethodTable) -> str:
    """All numbers as they are, one line a row; three columns for each task: accuracy and the ends of its interval."""
    names = [each.name for each in fields(MethodTableRow) if each.name != "tasks"]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*names, *(f"{part} {task}" for task in table.tasks for part in ("accuracy", "low", "high"))])
    for row in table.rows:
        by_task = [value for task in table.tasks for value in row.tasks.get(task, (None, None, None))]
        writer.writerow([_plain(value) for value in (*(getattr(row, name) for name in names), *by_task)])
    return stream.getvalue()


def latex_text(table: MethodTable) -> str:
    """A `tabular` for booktabs, with a rule between methods."""
    columns, rows = text_rows(table)
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"\toprule",
        " & ".join(map(_escaped, columns)) + r" \\",
    ]
    before = None
    for row, method in zip(rows, (row.method for row in table.rows), strict=True):
        lines += [r"\midrule"] if method != before else []
        lines.append(" & ".join(map(_escaped, row)) + r" \\")
        before = method
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _label(row: MethodTableRow) -> str:
    at = "" if row.budget is None else f" @{100 * row.budget:g}%"
    return row.method + _SUFFIXES.get(row.kind, "") + at


def _text(row: MethodTableRow, tasks: tuple[str, ...]) -> tuple[str, ...]:
    if row.accuracy is None:
        return (_label(row), row.note.split(":")[0], *[""] * (len(_COLUMNS) - 2 + len(tasks)))
    interval = f"±{100 * row.deviation:.1f}" if row.deviation is not None else _interval(row)
    return (
        _label(row),
        f"{100 * row.accuracy:.1f} {interval}",
        _percent(row.loyalty),
        _percent(row.hard_accuracy),
        _percent(row.fraction) + ("!" if "floor" in row.note else ""),
        "" if row.kv_bytes is None else f"{row.kv_bytes / 1024:.1f}",
        "" if row.mean_inputs is None else f"{row.mean_inputs:.1f}",
        "" if row.milliseconds is None else f"{row.milliseconds:.1f}",
        "" if row.speedup is None else f"{row.speedup:.2f}",
        *(_of_task(row.tasks.get(task)) for task in tasks),
    )


def _of_task(values: tuple[float, float, float] | None) -> str:
    """Accuracy and its interval, in whole per cents: there are few items of one task."""
    return "" if values is None else "{:.1f} [{:.0f}, {:.0f}]".format(*(100 * value for value in values))


def _interval(row: MethodTableRow) -> str:
    return "" if row.low is None or row.high is None else f"[{100 * row.low:.1f}, {100 * row.high:.1f}]"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _plain(value: object) -> object:
    return "" if value is None else value


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
    **{letter: "\\" + letter for letter in "&%#_$"},
}
"""What the letters with a meaning of their own are written as, and those that not every font has."""


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
