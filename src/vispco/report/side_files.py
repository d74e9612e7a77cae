"""What else a run's folder says, as the page takes it: image areas, a bench, and where the numbers come from."""

from __future__ import annotations

import shlex
from typing import Any

from vispco.compare.methods import MethodTable, text_rows
from vispco.compare.searches import Comparison, comparison_table, equal_terms_table
from vispco.core.errors import InvalidInputError
from vispco.report.payload import Areas, Bench, Provenance
from vispco.report.run_files import RunFiles


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
    return Bench(files.name, columns, tuple(tuple(row.get(name) for name in columns) for row in flat), _batch(files))


def _batch(files: RunFiles) -> str:
    """How many prompts a timed batch had: a time means little without it."""
    about = files.bench if isinstance(files.bench, dict) else {}
    size = about.get("batch_size") or (about.get("options") or {}).get("batch_size")
    return (
        "" if not isinstance(size, int) else f"Batches of {size}." if size > 1 else "One prompt at a time (batch of 1)."
    )


def comparison(files: RunFiles, found: Comparison) -> list[Bench]:
    """`vispco compare searches`: each search at one budget, and all budgets on equal terms where there are several."""
    table, equal = comparison_table(found), equal_terms_table(found)
    shown = [Bench(f"{files.name}, at {found.budget:.0%} of FLOPs", table.columns, table.rows)]
    if equal is not None:
        shown.append(Bench(f"{files.name}, on equal terms", equal.columns, equal.rows))
    return shown


def method_table(files: RunFiles, found: MethodTable) -> Bench:
    """`vispco compare methods`: as published, at budgets (@), with random schedules, with a search on top (+)."""
    return Bench(f"{files.name}, published methods", *text_rows(found))


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
