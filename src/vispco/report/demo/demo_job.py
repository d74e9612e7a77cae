"""`DemoJob`: the stages of a demo in order; one is noted as finished after its result is in the folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from vispco import report
from vispco.core.runs.files import DamagedFileError, read_json_object, write_json
from vispco.core.runs.provenance import cores
from vispco.core.runs.run_folder import RunFolder
from vispco.cost.time_profile import ProfileError
from vispco.evaluation.encoded import encode
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.spec import EvaluatorSpec
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models import shipped
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.pruner.pruning_options import budgets_of
from vispco.report.demo.demo_options import DemoOptions
from vispco.report.examples import add_examples, of_each_task
from vispco.report.run_files import EXAMPLES
from vispco.scorers import Chain
from vispco.search.run_search import search
from vispco.search.search_journal import NAME as SEARCH_JOURNAL
from vispco.search.search_spec import SearchSpec
from vispco.sweep.runner import Progress
from vispco.sweep.runner import run as run_sweep
from vispco.sweep.spec import SweepSpec
from vispco.sweep.study import JOURNAL
from vispco.timing import BenchSettings, time_candidates
from vispco.timing.large_layers import time_large_layers
from vispco.timing.prediction import useful_batch
from vispco.timing.profiling import profile_model

Stage = Literal["load", "search", "sweep", "bench", "examples", "page"]
Tell = Callable[[Stage, float | None, str], None]
"""(stage, how much of it is done if it says, what is happening)."""
_CALIBRATION = 48  # items of each synthetic task, where nobody says: fewer than a search has, to be quick
_SWEPT = "fastv"  # the scorer of the sweep beside a joint search
_BATCHES = (4, 8, 16)  # among which the demo chooses
_REPORT, BENCH, _STAGES = "report.html", "bench.json", "demo.json"


@dataclass(frozen=True, kw_only=True)
class DemoJob:
    """What is searched, swept and timed, and on what. threads: cores to use; None for all."""

    model: ModelSpec
    options: DemoOptions
    tasks: TaskSpec
    calibration: CalibrationSpec
    threads: int | None = None

    @cached_property
    def spec(self) -> EvaluatorSpec:
        """What accuracy is measured on; its scorer is that of the sweep."""
        scorer = Chain.of(self.options.scorer or _SWEPT).to_dict()
        return EvaluatorSpec(
            model=self.model, scorer=scorer, **self.tasks.spec(), limit=self.options.test, details=False
        )

    @cached_property
    def searched_on(self) -> CalibrationSpec:
        """The calibration data, fewer items than a search has where nobody says."""
        few = self.calibration.data is None and self.calibration.samples is None
        return replace(self.calibration, samples=_CALIBRATION) if few else self.calibration

    @property
    def mode(self) -> Any:
        """A joint search; with a scorer, a predictor of its schedules."""
        return self.options.mode or ("joint" if self.options.scorer is None else "predictor")

    @property
    def search_spec(self) -> SearchSpec:
        """What is searched."""
        options = self.options
        asked: dict[str, Any] = {"budgets": tuple(budgets_of(options.budgets)), "seed": options.seed}
        if self.mode == "joint":
            return SearchSpec.of_chains(**asked)
        return SearchSpec.of(Chain.of(options.scorer or _SWEPT), options.kernel, mode=self.mode, **asked)

    def identity(self) -> dict[str, Any]:
        """What its results depend on, JSON-able; a folder holds one demo."""
        options = self.options
        return {
            "evaluation": self.spec.fingerprint(),
            "calibration": str(self.searched_on),
            "mode": self.mode,
            "kernel": options.kernel,
            "budgets": budgets_of(options.budgets),
            "trials": options.trials,
            "timed": budgets_of(options.timed),
            "bench": [options.rounds, options.batch_size, 8],
            "examples": options.examples,
            "seed": options.seed,
        }

    def run(
        self,
        folder: RunFolder,
        facts: dict[str, Any],
        *,
        tell: Tell = lambda _stage, _fraction, _text: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> Path:
        """Search, sweep, bench, examples, page, all into `folder`; gives the page. The same call continues an
        interrupted one.

        facts: what the search keeps of how it was made. say: called with what data was skipped.
        """
        torch.set_num_threads(self.threads or cores())
        identity = self.identity()
        with folder.claim("demo", identity):
            seconds = _finished_stages(folder.path / _STAGES)
            tell("load", None, f"loading {self.model.name}")
            judge = self.spec.build()
            stages: dict[Stage, Callable[[], None]] = {
                "search": lambda: self._search(judge, folder, facts, tell, say),
                "sweep": lambda: self._sweep(judge, folder, tell),
                "bench": lambda: self._bench(judge, folder, tell),
                "examples": lambda: self._examples(judge, folder, tell),
            }
            for stage, work in stages.items():
                if stage not in seconds:
                    began = time.perf_counter()
                    work()
                    seconds[stage] = time.perf_counter() - began
                    write_json(folder.file(_STAGES), {"identity": identity, "stages": seconds}, seal=True)
            tell("page", None, "writing the page")
            page = report.write([folder.path], folder.file(_REPORT))
            folder.remove(SEARCH_JOURNAL)
            folder.finish(growing=(JOURNAL, f"{JOURNAL}.flock"))
        return page

    def _search(
        self, judge: TaskEvaluator, folder: RunFolder, facts: dict[str, Any], tell: Tell, say: Callable[[str], None]
    ) -> None:
        samples, about = self.searched_on.load(self.tasks, judge.processor, seed=self.options.seed, say=say)
        if "areas" in about:  # of images, before and after downsampling
            folder.write_json("areas.json", about["areas"])
        tell("search", None, f"searching on {len(samples)} samples")
        search(
            judge.model,
            judge.processor,
            samples,
            spec=self.search_spec,
            directory=folder,
            test=judge.samples,
            facts={"model": self.model.name, **facts, "data": about, "label": "VisPCO"},
            say=lambda line: tell("search", None, line),
        )

    def _sweep(self, judge: TaskEvaluator, folder: RunFolder, tell: Tell) -> None:
        """Single-layer schedules, drawn without replacement from their grid, beside the search."""
        trials = self.options.trials
        tell("sweep", 0.0, f"sweeping {trials} single-layer schedules")

        def on_progress(progress: Progress) -> None:
            settled, total = progress.settled, progress.total
            tell("sweep", settled / max(total, 1), f"{settled} of {total} single-layer schedules evaluated")

        used = self.threads or cores()
        workers = used if used > 1 and judge.model.device.type == "cpu" else 0
        run_sweep(
            self.spec if workers else lambda: judge,
            SweepSpec(
                space="single",
                strategy="random",
                num_layers=judge.num_layers,
                trials=min(trials, (judge.num_layers - 1) * 20),
                seed=self.options.seed,
            ),
            name=f"{self.model.short_name}-{Chain.of(self.spec.scorer).name}-single-random",
            directory=folder,
            workers=workers,
            fingerprint=self.spec.fingerprint(),
            on_progress=on_progress,
        )

    def _bench(self, judge: TaskEvaluator, folder: RunFolder, tell: Tell) -> None:
        """Times to the first token, in batches where nobody says in which chosen by a profile, so that pruning shows."""
        run = PrunerSpec.load(folder.path)
        batch = self.options.batch_size
        if batch is None:
            tell("bench", None, "choosing the batch by a profile")
            batch = _choose_batch(judge)
        rows = time_candidates(
            judge.model,
            judge.processor,
            of_each_task(judge.samples, batch),
            {f"VisPCO {budget:.0%}": run.at(budget) for budget in budgets_of(self.options.timed)},
            BenchSettings(rounds=self.options.rounds, batch_size=batch, new_tokens=8),
            on_progress=lambda done, total, text: tell("bench", done / total, f"timing {text}, batch of {batch}"),
        )
        large = None
        if self.model.name in shipped.NAMES:  # whose layers are too small to show what pruning saves
            tell("bench", None, "timing layers of a large model's size")
            large = time_large_layers()
        told = {
            "rows": [row.to_dict() for row in rows],
            "batch_size": batch,
            "chosen_by_profile": self.options.batch_size is None,
            "large_layers": large,
        }
        folder.write_json(BENCH, told)
        folder.seal(BENCH)

    def _examples(self, judge: TaskEvaluator, folder: RunFolder, tell: Tell) -> None:
        tell("examples", None, "which tokens survive, on a few pictures")
        samples = of_each_task(judge.samples, self.options.examples)
        add_examples(judge.model, judge.processor, samples, folder, lambda line: tell("examples", None, line))
        folder.seal(EXAMPLES)


def _finished_stages(path: Path) -> dict[str, float]:
    """Seconds of the stages that an earlier run has finished: they are not run again."""
    if not path.exists():
        return {}
    remedy = "Remove it, or choose another --out."
    stages = read_json_object(path, what="list of finished stages", remedy=remedy).get("stages")
    if not isinstance(stages, dict):
        raise DamagedFileError(f"The list of finished stages {path} is damaged: its parts are missing. {remedy}")
    return stages


def _choose_batch(judge: TaskEvaluator) -> int:
    """The batch at which pruning shows; the largest where the machine is too busy to tell."""
    samples = of_each_task(judge.samples, max(_BATCHES))
    try:
        found = profile_model(judge.model, judge.processor, samples, batches=_BATCHES, rounds=2, tokens=5)
    except ProfileError:
        return max(_BATCHES)
    encoded = encode(judge.model, judge.processor, samples)
    return useful_batch(found, max(encoded.num_text), max(encoded.num_visual))
