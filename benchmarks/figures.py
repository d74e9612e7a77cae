"""How a benchmark writes its result: one JSON file with the figures, and what they were measured with."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

RESULTS = Path(__file__).parent / "results"
TESTS = str(Path(__file__).parent.parent / "tests")  # with the counters that tests and benchmarks share
sys.path += [] if TESTS in sys.path else [TESTS]
PACKAGES = ("torch", "transformers", "accelerate", "numpy")


@dataclass(frozen=True)
class Figure:
    """A measured value, which way is better, and the bar that it must reach."""

    value: float
    better: Literal["higher", "lower"]
    bar: float | None
    unit: str

    @property
    def reached(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.better == "higher" else self.value <= self.bar


def write(name: str, figures: dict[str, Figure], details: Any, seed: int, into: Path = RESULTS) -> Path:
    """Write results/NAME.json (to a temporary name first) and say which bars were reached."""
    from vispco import __version__
    from vispco.core.runs.files import write_json

    data = {
        "command": " ".join(["python", *(os.path.relpath(a) if os.path.exists(a) else a for a in sys.argv)]),  # noqa: PTH110 - false for what is no path
        "versions": {"vispco": __version__, "python": sys.version.split()[0], **{p: version(p) for p in PACKAGES}},
        "machine": {
            "cores": os.cpu_count(),
            "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        },
        "seed": seed,
        "figures": {key: asdict(figure) for key, figure in figures.items()},
        "details": details,
    }
    path = into / f"{name}.json"
    write_json(path, data)
    for key, figure in figures.items():
        sign = ">=" if figure.better == "higher" else "<="
        bar = (
            "" if figure.bar is None else f"  ({sign} {figure.bar:g}: {'reached' if figure.reached else 'NOT REACHED'})"
        )
        print(f"{key:40} {figure.value:.4f} {figure.unit}{bar}")
    return path
