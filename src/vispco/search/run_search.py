"""`search`: from a model, samples and budgets to a frontier, and a directory that can be deployed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list

from vispco.core.runs.provenance import machine, versions
from vispco.core.runs.run_folder import RunFolder
from vispco.core.weights import hide_weight_bars
from vispco.cost import Budget
from vispco.evaluation import Evaluation
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.frontier import Frontier, Point
from vispco.pruner import search_files as disk
from vispco.pruner.model_fingerprint import ModelFingerprint
from vispco.scorers import ChainLike
from vispco.search import ranks
from vispco.search.evaluate_planner import evaluate_planner, with_selector
from vispco.search.gradient.training_loop import CHECKPOINT
from vispco.search.modes import SearchRun, run_mode
from vispco.search.search_journal import NAME as JOURNAL
from vispco.search.search_journal import SearchJournal
from vispco.search.search_spec import SearchSpec
from vispco.search.whole_search import search_whole
from vispco.version import __version__

if TYPE_CHECKING:
    from vispco.data.sample import Sample

_TRAINING = "training"  # the folder of a gradient training's checkpoint and metrics
_WRITTEN = (disk.CONFIG, disk.SHAPES, disk.METRICS, disk.FRONTIER, disk.UNPRUNED)
_TYPICAL = 8  # batches whose median size is the typical one


def search(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    spec: SearchSpec | None = None,
    scorer: ChainLike | None = None,
    directory: str | Path | RunFolder | None = None,
    test: Sequence[Sample] | None = None,
    facts: Mapping[str, Any] | None = None,
    memory: int | None = None,
    show: bool = False,
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Frontier:
    """Search schedules that meet each budget, evaluate them, and keep all of it in `directory`.

    directory: a new folder, or that of the same search, which continues, or gives its frontier if it was finished; one
    with anything else in it is refused (`vispco.core.runs.run_folder`).

    Without `scorer` the joint space is searched: which chain of scorers, and which schedule. With one scorer, its
    schedules alone are searched. options: further arguments of `SearchSpec.choose`, such as budgets, seed, scorers,
    servable, mode or compensate.
    samples: the calibration set that is searched on. test: what the frontier's accuracies are measured on; default: the
    calibration set itself, which flatters. spec: scorer and options at once, in place of them. memory: bytes, see
    `SearchRun.prepare`. facts: more for config.json, such as the command that was given.
    Deploy with `vispco.Pruner.from_pretrained(directory, budget=...)`, or `vispco.PrunerSpec.load`.
    """
    began = time.perf_counter()
    spec = spec or SearchSpec.choose(scorer, **options)
    spec = spec.for_model(model.config)
    with _claimed(directory, spec.to_dict(), model, samples, test) as (place, folder, finished):
        if finished and place is not None:
            say(f"{place} holds the result of this search already")
            return Frontier.load(place / disk.FRONTIER)
        journal = None if place is None else SearchJournal(place, read_only=folder is None)
        asked_of, batch_size = samples if test is None else test, spec.effort.batch_size
        evaluator = TaskEvaluator(model, processor, asked_of, spec.chain, batch_size=batch_size, scores=True)
        alone = ranks.rank_and_size()[1] == 1  # many ranks share this pass, too, at the end
        if folder is not None and alone:
            _tell_unpruned(evaluator(), folder, say)
        say(f"vision tower and teacher: {len(samples)} samples, once each")
        run = SearchRun.prepare(
            model, processor, samples, spec, memory=memory, journal=journal, folder=place, show=show, say=say
        )
        outcome = search_whole(run, processor) if spec.whole else run_mode(run)
        spec, objective = run.spec, run.objective
        if spec.solver == "table":  # the others are not shared: every rank does the same
            ranks.sum_of_bills(objective)
        if folder is not None:
            disk.write_config(
                folder.path,
                {
                    "vispco": __version__,
                    "model": str(getattr(model.config, "name_or_path", "")) or type(model).__name__,
                    "fingerprint": ModelFingerprint.of(model).to_dict(),
                    "versions": versions(),
                    "machine": machine(model.device),
                    **(facts or {}),
                    **{name: value for name, value in spec.to_dict().items() if name != "effort"},
                    "cost": objective.cost.to_dict(),
                    "samples": len(samples),
                    "typical": [
                        int(torch.cat([getattr(b, size) for b in run.batches[:_TYPICAL]]).median())
                        for size in ("num_text", "num_visual")
                    ],
                    "spent": objective.spent.to_dict(),
                    **outcome.facts(),
                    "search_seconds": time.perf_counter() - began,
                },
            )
            disk.write_shapes(folder.path, outcome.found)
            disk.write_metrics(folder.path, outcome.records)
            outcome.save_parts(folder)
            if outcome.predictor is not None:
                with hide_weight_bars(), folder.staging(disk.PREDICTOR) as unfinished:
                    outcome.predictor.save_pretrained(unfinished)

        def evaluated(budget: Any) -> Evaluation | Point:
            """What a budget comes to on the test samples; of None, the unpruned model."""
            if budget is None:
                return evaluator()
            made_by = {"mode": spec.mode, "solver": spec.solver, "kernel": spec.kernel.name}
            point = evaluate_planner(outcome.planner(run, budget), Budget.of(budget).amount, evaluator, made_by, say)
            return point if spec.mode != "joint" or spec.servable else with_selector(point, evaluator, objective.cost)

        searched: Sequence[Any] = spec.whole or spec.budgets
        asked: list[Any] = list(searched) if alone else [None, *searched]
        weights = [1.0 if budget is None else Budget.of(budget).amount for budget in asked]
        found = ranks.shared_over_ranks(asked, evaluated, objective, weights)
        frontier = Frontier([point for point in found if isinstance(point, Point)])
        if folder is not None:
            for unpruned in found:
                if isinstance(unpruned, Evaluation):
                    _tell_unpruned(unpruned, folder, say)
            frontier.save(folder.path / disk.FRONTIER)
        return frontier


def _tell_unpruned(unpruned: Evaluation, folder: RunFolder, say: Callable[[str], None]) -> None:
    """Save and print the accuracy of the unpruned model on the same samples."""
    disk.write_unpruned(folder.path, unpruned)
    items = sum(task.n for task in unpruned.tasks)
    say(f"the unpruned model: accuracy {unpruned.accuracy:.1%} on {items} samples")


@contextmanager
def _claimed(
    directory: str | Path | RunFolder | None,
    settings: Mapping[str, Any],
    model: Any,
    samples: Sequence[Sample],
    test: Sequence[Sample] | None,
) -> Iterator[tuple[Path | None, RunFolder | None, bool]]:
    """(where the search lives, its folder to write to, whether it was finished before) for the length of a block.

    Of many processes (`accelerate launch`), all know the place and one writes; the others have no folder. Raises if there
    is something else in it.
    """
    if directory is None:
        yield None, None, False
        return
    folder = RunFolder.of(directory)
    if ranks.rank_and_size()[0] > 0:
        place, finished = _shared_place(folder, finished=False)
        yield place, None, finished
        return
    known = {
        **settings,
        "dtype": str(getattr(model, "dtype", "")),
        "samples": _samples_digest(samples),
        "test": None if test is None else _samples_digest(test),
    }
    with folder.claim("search", known, model=ModelFingerprint.of(model).to_dict()):
        finished = folder.record.files.get(disk.FRONTIER) is not None  # it is written last, and has its checksum
        folder.until_finish(JOURNAL, write=not finished)
        if not finished:
            folder.declare(*_WRITTEN, f"{_TRAINING}/{CHECKPOINT}", f"{_TRAINING}/{disk.METRICS}")
        yield _shared_place(folder, finished=finished)[0], folder, finished
        folder.finish()


def _shared_place(folder: RunFolder, *, finished: bool) -> tuple[Path, bool]:
    """Path and state of the folder as the first process knows them: a numbered one has its number when it is claimed."""
    known = [str(folder.path), finished]
    broadcast_object_list(known)
    return Path(str(known[0])), bool(known[1])


def _samples_digest(samples: Sequence[Sample]) -> str:
    """A short name of a list of samples, from all that is asked and known of them but the pictures' pixels."""
    found = blake2b(digest_size=16)
    for sample in samples:
        parts = (sample.id, sample.task, sample.question, sample.answer, *sample.references, sample.area)
        found.update("\0".join(map(str, parts)).encode("utf-8", "surrogatepass") + b"\1")
    return f"{len(samples)} samples, {found.hexdigest()}"
