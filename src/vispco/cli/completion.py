"""What a shell offers after TAB: models, scorers and tasks by name. `vispco --install-completion` sets it up."""

from __future__ import annotations

from pathlib import Path

from vispco.cli.registered_names import names


def complete_models(incomplete: str) -> list[str]:
    """Shipped models, and folders of models from here."""
    start = Path(incomplete)
    parent = start if incomplete.endswith("/") else start.parent
    folders = [path for path in parent.glob("*") if (path / "config.json").is_file()] if parent.is_dir() else []
    return [name for name in (*sorted(names("models")), *map(str, sorted(folders))) if name.startswith(incomplete)]


def complete_scorers(incomplete: str) -> list[str]:
    """Scorers; in a chain, the one after the last plus sign."""
    before, plus, last = incomplete.rpartition("+")
    return [f"{before}{plus}{name}" for name in names("scorers") if name.startswith(last)]


def complete_tasks(incomplete: str) -> list[str]:
    """Synthetic tasks and benchmarks; in a list, the one after the last comma."""
    before, comma, last = incomplete.rpartition(",")
    known = [*(["all"] if not comma else []), *names("tasks"), *(f"{name}=" for name in names("benchmarks"))]
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]
