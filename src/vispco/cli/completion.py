"""What a shell offers after TAB: scorers and tasks by name. `vispco --install-completion` sets it up."""

from __future__ import annotations

from vispco.cli.registered_names import names


def complete_scorers(incomplete: str) -> list[str]:
    """Scorers; in a chain, the one after the last plus sign."""
    before, plus, last = incomplete.rpartition("+")
    return [f"{before}{plus}{name}" for name in names("scorers") if name.startswith(last)]


def complete_tasks(incomplete: str) -> list[str]:
    """Synthetic tasks and benchmarks; in a list, the one after the last comma."""
    before, comma, last = incomplete.rpartition(",")
    known = [*(["all"] if not comma else []), *names("tasks"), *(f"{name}=" for name in names("benchmarks"))]
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]
