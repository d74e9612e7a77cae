"""Steps of `vispco paper`: which commands measure what the paper's tables and figures show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

METHODS = ("fastv", "sparsevlm", "fitprune")  # Table 1
LEARNED = ("aim", "atp-llava", "madtp")  # rows of Table 2 that are methods, not searches
_SEARCHES = ("vtw", "g-search", "random-40", "random-80", "random-160", "vispco-paper", "vispco")  # Table 2
KERNELS = ("single", "linear", "exponential", "p-sigmoid", "multi-step")  # Table 5
BUDGETS = (0.9, 0.7, 0.5, 0.3, 0.1)
HALF = 0.5  # the budget of Tables 2 to 5
JOINT, GRID, SAMPLED, OWN, COMPARED, TIMES = "joint", "grid", "sampled", "learned", "searches", "bench.json"


@dataclass(frozen=True)
class Step:
    """A command and what it measures. passes: unpruned passes over one item that take about as long."""

    label: str
    command: tuple[str, ...]
    passes: int


@dataclass(frozen=True, kw_only=True)
class PaperSettings:
    """How much is measured; the fields are options of the command line."""

    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 16
    draws: Annotated[int, typer.Option(min=2, help="Sampled configurations of each method and budget.")] = 5
    trials: Annotated[int | None, typer.Option(min=1, help="Draw so many configurations of the grid [all]")] = None
    samples: Annotated[
        int | None, typer.Option(min=1, help="Calibration items of each task, or of --data [by search]")
    ] = None
    data: Annotated[Path | None, typer.Option(help="Calibration data for the searches, as in vispco search.")] = None
    images: Annotated[Path | None, typer.Option(help="The folder of its pictures.")] = None
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0


def searched_folder(method: str) -> str:
    """The folder of the published search with one method's scorer and multi-step curves."""
    return f"vispco-{method}"


def kernel_folder(kernel: str) -> str:
    """The folder of the published search of FastV with one family of curves."""
    return searched_folder("fastv") if kernel == "multi-step" else f"kernel-{kernel}"


def plan(model: str, folder: Path, settings: PaperSettings, asked: Sequence[str]) -> list[Step]:
    """The commands for one model, in order. asked: options of evaluation data and of loading."""
    budgets = ",".join(map(str, BUDGETS))
    common = ("--seed", str(settings.seed), *asked)
    test = ("--test", str(settings.test))
    some = _options({"--samples": settings.samples})
    calibration = _options({"--data": settings.data, "--images": settings.images})
    grid = () if settings.trials is None else ("--strategy", "random", "--trials", str(settings.trials))

    def search(label: str, name: str, *options: str, passes: int) -> Step:
        out = ("--out", str(folder / name))
        return Step(label, ("search", model, *options, "--budgets", budgets, *test, *some, *out, *common, *calibration), passes)  # fmt: skip

    def methods(label: str, name: str, which: Sequence[str], at: str, draws: int, passes: int) -> Step:
        once = ("--search", "none", "--compensations", "none", "--rounds", "0", "--out", str(folder / name), *common)
        drawn = ("--draws", str(draws))
        return Step(label, ("compare", "methods", model, "--methods", ",".join(which), "--budgets", at, *test, *drawn, *once), passes)  # fmt: skip

    published = ("--mode", "predictor", "--solver", "lagrangian")
    steps = [
        Step(
            "single-layer grid (Figures 1 and 3)",
            ("sweep", model, "--limit", str(settings.test), "--workers", "0", "--out", str(folder / GRID), *common,
             *grid),
            26_000,
        ),
        methods("sampled configurations (Table 1)", SAMPLED, METHODS, budgets, settings.draws, passes=18_000),
        methods("learned methods (Table 2)", OWN, LEARNED, str(HALF), 0, passes=3_000),
    ]  # fmt: skip
    for method in METHODS:
        kernel = ("--scorer", method, *published, "--kernel", "multi-step")
        steps.append(search(f"VisPCO with {method} (Table 1)", searched_folder(method), *kernel, passes=15_000))
    for name in KERNELS[:-1]:
        kernel = ("--scorer", "fastv", *published, "--kernel", name)
        steps.append(search(f"{name} curves (Table 5)", kernel_folder(name), *kernel, passes=15_000))
    steps += [
        search("joint search", JOINT, passes=40_000),
        Step(
            "searches side by side (Table 2)",
            ("compare", "searches", model, "--budget", str(HALF), "--budgets", "none", "--searches", ",".join(_SEARCHES),
             "--scorer", "fastv", *test, *some, "--out", str(folder / COMPARED), *common),
            30_000,
        ),
        Step(
            "time to first token (Table 4)",
            ("bench", model, "--pruner", str(folder / searched_folder("fastv")), "--pruner", str(folder / JOINT),
             "--budgets", str(HALF), "--no-memory", "--throughput", "--out", str(folder / TIMES), *asked),
            4_000,
        ),
    ]  # fmt: skip
    return steps


def _options(given: Mapping[str, int | Path | None]) -> tuple[str, ...]:
    return tuple(word for name, value in given.items() if value is not None for word in (name, str(value)))
