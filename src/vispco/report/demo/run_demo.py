"""`run`: the stages of a demo, one after the other; each leaves its result in the folder before it is called done."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from vispco import report
from vispco.core.runs.run_folder import RunFolder
from vispco.cost.time_profile import ProfileError
from vispco.evaluation.encoded import encode
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.models import shipped
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.report.demo.demo_settings import DemoSettings
from vispco.report.demo.finished_stages import FinishedStages
from vispco.report.examples import add_examples, of_each_task
from vispco.report.run_files import EXAMPLES
from vispco.search.run_search import search
from vispco.search.search_journal import NAME as SEARCH_JOURNAL
from vispco.search.search_spec import SearchSpec
from vispco.sweep.progress import Progress
from vispco.sweep.runner import run as run_sweep
from vispco.sweep.spec import SweepSpec, SweepWorkers
from vispco.sweep.study import JOURNAL
from vispco.timing import time_candidates
from vispco.timing.large_layers import time_large_layers
from vispco.timing.prediction import useful_batch
from vispco.timing.profiling import profile_model

Stage = Literal["load", "search", "sweep", "bench", "examples", "page"]
Tell = Callable[[Stage, float | None, str], None]
"""(stage, how much of it is done if it says, what is happening)."""
BATCHES = (4, 8, 16)  # among which the demo chooses
REPORT, BENCH = "report.html", "bench.json"


def run(
    settings: DemoSettings,
    folder: str | Path | RunFolder,
    *,
    facts: Mapping[str, Any] | None = None,
    tell: Tell = lambda _stage, _fraction, _text: None,
) -> Path:
    """Search, sweep, bench, examples, page, all into `folder`; gives the page. The same call continues an interrupted one."""
    own = RunFolder.of(folder)
    with own.claim("demo", settings.identity()):
        return _run(settings, own, dict(facts or {}), tell)


def _run(settings: DemoSettings, folder: RunFolder, facts: dict[str, Any], tell: Tell) -> Path:
    finished = FinishedStages(folder, settings.identity())
    tell("load", None, f"loading {settings.spec.model.name}")
    judge = settings.spec.build()
    if "search" not in finished:
        with _timed(finished, "search"):
            _search(settings, judge, folder, facts, tell)
    if "sweep" not in finished:
        with _timed(finished, "sweep"):
            _sweep(settings, judge, folder, tell)
    if "bench" not in finished:
        with _timed(finished, "bench"):
            _bench(settings, judge, folder, tell)
    if "examples" not in finished:
        with _timed(finished, "examples"):
            _examples(settings, judge, folder, tell)
    tell("page", None, "writing the page")
    page = report.write([folder.path], folder.file(REPORT))
    folder.remove(SEARCH_JOURNAL)
    folder.finish(growing=(JOURNAL, f"{JOURNAL}.flock"))
    return page


@contextmanager
def _timed(finished: FinishedStages, stage: Stage) -> Iterator[None]:
    began = time.perf_counter()
    yield
    finished.add(stage, time.perf_counter() - began)


def _search(settings: DemoSettings, judge: TaskEvaluator, folder: RunFolder, facts: dict[str, Any], tell: Tell) -> None:
    samples, about = settings.learn(judge.processor)
    tell("search", None, f"searching on {len(samples)} samples")
    search(
        judge.model,
        judge.processor,
        samples,
        spec=_spec(settings, judge),
        directory=folder,
        test=judge.samples,
        facts={"model": settings.spec.model.name, **facts, "data": about, "label": "VisPCO"},
        say=lambda line: tell("search", None, line),
    )


def _spec(settings: DemoSettings, judge: TaskEvaluator) -> SearchSpec:
    asked: dict[str, Any] = {"budgets": settings.budgets, "seed": settings.seed}
    if settings.mode == "joint":
        return SearchSpec.of_chains(**asked)
    return SearchSpec.of(judge.scorer, settings.kernel, mode=settings.mode, **asked)


def _sweep(settings: DemoSettings, judge: TaskEvaluator, folder: RunFolder, tell: Tell) -> None:
    tell("sweep", 0.0, f"sweeping {settings.trials} single-layer schedules")

    def on_progress(progress: Progress) -> None:
        settled, total = progress.settled, progress.total
        tell("sweep", settled / max(total, 1), f"{settled} of {total} single-layer schedules evaluated")

    workers = settings.workers if judge.model.device.type == "cpu" else 0
    run_sweep(
        settings.spec if workers else lambda: judge,
        SweepSpec(
            space="single",
            strategy="random",
            num_layers=judge.num_layers,
            trials=min(settings.trials, (judge.num_layers - 1) * 20),
            seed=settings.seed,
        ),
        name=settings.study,
        directory=folder,
        workers=SweepWorkers(workers),
        fingerprint=settings.spec.fingerprint(),
        on_progress=on_progress,
    )


def _bench(settings: DemoSettings, judge: TaskEvaluator, folder: RunFolder, tell: Tell) -> None:
    run = PrunerSpec.load(folder.path)
    found = {f"VisPCO {budget:.0%}": run.at(budget) for budget in settings.timed}
    batch, chosen = settings.batch_size, settings.batch_size is None
    if batch is None:
        tell("bench", None, "choosing the batch by a profile")
        batch = _choose_batch(judge)
    rows = time_candidates(
        judge.model,
        judge.processor,
        of_each_task(judge.samples, batch),
        found,
        replace(settings.bench, batch_size=batch),
        on_progress=lambda done, total, text: tell("bench", done / total, f"timing {text}, batch of {batch}"),
    )
    large = None
    if settings.spec.model.name in shipped.names():  # whose layers are too small to show what pruning saves
        tell("bench", None, "timing layers of a large model's size")
        large = time_large_layers()
    told = {
        "rows": [row.to_dict() for row in rows],
        "batch_size": batch,
        "chosen_by_profile": chosen,
        "large_layers": large,
    }
    folder.write_json(BENCH, told)
    folder.seal(BENCH)


def _choose_batch(judge: TaskEvaluator) -> int:
    """The batch at which pruning shows; the largest where the machine is too busy to tell."""
    samples = of_each_task(judge.samples, max(BATCHES))
    try:
        found = profile_model(judge.model, judge.processor, samples, batches=BATCHES, rounds=2, tokens=5)
    except ProfileError:
        return max(BATCHES)
    encoded = encode(judge.model, judge.processor, samples)
    return useful_batch(found, max(encoded.num_text), max(encoded.num_visual))


def _examples(settings: DemoSettings, judge: TaskEvaluator, folder: RunFolder, tell: Tell) -> None:
    tell("examples", None, "which tokens survive, on a few pictures")
    samples = of_each_task(judge.samples, settings.examples)
    add_examples(judge.model, judge.processor, samples, folder, lambda line: tell("examples", None, line))
    folder.seal(EXAMPLES)
