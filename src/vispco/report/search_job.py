"""`SearchJob`: a search from what a user asks for to a finished folder, with all that a page and a table show of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from vispco.core.runs.files import read_json_object
from vispco.core.runs.run_folder import RunFolder
from vispco.evaluation import Evaluation, task_spec
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.leaderboard import LeaderboardEntry
from vispco.evaluation.spec import EvaluatorSpec
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.report.examples import add_examples, of_each_task
from vispco.search.run_search import search
from vispco.search.search_options import PresetOptions, SearchOptions
from vispco.timing.prediction import fraction_at_size
from vispco.timing.timing import TIMES, BenchRow, time_budgets


@dataclass(frozen=True)
class SearchedRun:
    """What a search found. budgets: as they were asked for, by fraction of the FLOPs. times: unpruned and at each budget."""

    frontier: Frontier
    unpruned: Evaluation
    times: list[BenchRow]
    budgets: dict[float, str]


@dataclass(frozen=True, kw_only=True)
class SearchJob:
    """What is searched and on what. test: items of each task. examples: pictures for the page. memory: GiB; see `search`."""

    model: ModelSpec
    options: SearchOptions = field(default_factory=SearchOptions)
    calibration: CalibrationSpec = field(default_factory=CalibrationSpec)
    tasks: TaskSpec = field(default_factory=TaskSpec)
    settings: PresetOptions = field(default_factory=PresetOptions)
    test: int = 32
    examples: int = 6
    memory: float | None = None

    def run(
        self,
        folder: RunFolder,
        facts: Callable[[Any], dict[str, Any]],
        *,
        show: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> SearchedRun | None:
        """Search into a folder, or continue there. Of many processes (torchrun), the first one alone has the result.

        facts: of a device, what a run keeps of how it was made. show: draw bars.
        """
        options, seed = self.options, self.options.seed
        self.settings.resolve(None, options.kernel, samples=1)  # a wrong name is refused before a model is loaded
        spec, named = options.spec(self.model), self.tasks.spec()
        own = self.calibration.questions(self.tasks, self.test, seed)
        named = named if own is None else {"files": {own[0].task: str(self.calibration.data)}}
        test_spec = EvaluatorSpec(model=self.model, limit=self.test, seed=seed if named.get("files") else 0, **named)
        questions = test_spec.samples() if own is None else own
        model, processor = self.model.load()
        per_task = task_spec.PER_TASK_JOINT if spec.mode == "joint" else task_spec.PER_TASK
        samples, about = self.calibration.load(
            self.tasks, processor, seed=seed, model=model, per_task=per_task, held_out=own, say=say
        )
        row, effort = self.settings.resolve(model.config, options.kernel, len(samples))
        questions = questions.for_model(model, processor)
        task_spec.tell_skipped(questions.skipped, say)
        fractions = spec.budgets if spec.whole else options.fractions(fraction_at_size(model, processor, samples, say))
        batch = max(effort.batch_size, spec.effort.batch_size) if spec.chains else effort.batch_size
        about_run = facts(model.device)
        with folder.held():
            frontier = search(
                model,
                processor,
                samples,
                spec=replace(spec, budgets=fractions, preset=row, effort=replace(effort, batch_size=batch)),
                directory=folder,
                test=questions,
                facts={
                    **about_run,
                    "model": self.model.name,
                    "data": about,
                    "tasks": task_spec.describe_tasks(test_spec, questions),
                },
                memory=None if self.memory is None else round(self.memory * 2**30),
                show=show,
                say=say,
            )
            if os.environ.get("RANK", "0") != "0":
                return None
            if "areas" in about:  # of images, before and after downsampling
                folder.write_json("areas.json", about["areas"])
            if self.examples:
                say(f"examples for the page: {self.examples}")
                add_examples(model, processor, of_each_task(questions, self.examples), folder, say)
            unpruned = Evaluation.from_dict(read_json_object(folder.path / "unpruned.json", what="unpruned evaluation"))
            LeaderboardEntry.of_search(self.model.name, options.title, frontier, unpruned, about_run).write(folder)
            say("time to the first token, unpruned and at each budget")
            times = time_budgets(model, processor, questions, PrunerSpec.load(folder.path), frontier)
            folder.write_json(TIMES, {"rows": [each.to_dict() for each in times], "batch_size": 1})
            folder.finish()
        asked = dict(zip(fractions, spec.whole, strict=False))
        return SearchedRun(frontier, unpruned, times, {each: asked.get(each, f"{each:g}") for each in fractions})
