"""What else a run's folder says, as the page takes it: image areas, a bench, and where the numbers come from."""

from __future__ import annotations

from typing import Any

from vispco.errors import InvalidInputError
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
    return Bench(files.name, columns, tuple(tuple(row.get(name) for name in columns) for row in flat))


def _flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested objects as columns `outer inner`; of a list, what its numbers are is not shown."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out |= _flat(value, f"{before}{key} ")
        elif isinstance(value, str | int | float | bool) or value is None:
            out[f"{before}{key}"] = value
    return out


def provenance(files: RunFiles) -> Provenance:
    told = ("seed", "command", "versions", "machine", "label")
    settings: dict[str, Any] = {key: value for key, value in files.config.items() if key not in told}
    settings |= {f"study {name}": told_of for name, told_of in files.studies.items()}
    seed, command = files.config.get("seed"), files.config.get("command")
    versions = files.config.get("versions") or {key: files.config[key] for key in ("vispco",) if key in files.config}
    return Provenance(
        label=files.name,
        seed=seed if isinstance(seed, int) else None,
        command=" ".join(map(str, command)) if isinstance(command, list) else command,
        versions={key: str(value) for key, value in versions.items()},
        machine=dict(files.config.get("machine") or {}),
        settings=settings,
    )
