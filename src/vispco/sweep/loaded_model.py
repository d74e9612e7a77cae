"""`vispco.sweep`: sweep over the schedules of a model that is already loaded, in this process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.scorers import ChainLike
from vispco.sweep.runner import run
from vispco.sweep.spec import SweepSpec, SweepWorkers

if TYPE_CHECKING:
    from vispco.data.sample import Sample
    from vispco.sweep.progress import OnProgress

SHARED_BYTES = 1 << 30  # of unpruned runs that are kept, so that later schedules resume from them


def sweep(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    scorer: ChainLike = "fastv",
    space: str = "single",
    strategy: str = "grid",
    trials: int | None = None,
    budget: tuple[float, float] | None = None,
    directory: str | Path | None = None,
    name: str = "sweep",
    kl: bool = False,
    batch_size: int = 32,
    seed: int = 0,
    progress: OnProgress | None = None,
) -> Frontier:
    """Evaluate the schedules of a space, and return them as a frontier.

    model, processor: as `vispco.load` returns them.
    samples: what every schedule is evaluated on.
    space: 'single', 'stages', 'kernel:NAME' or 'free'.
    strategy: 'grid', 'random', 'tpe' or 'nsga2'.
    trials: how many schedules; a grid has its own number.
    budget: (low, high), the range of cost that every schedule must lie in, as fractions of the unpruned FLOPs.
    directory: for the journal and the frontier; call again with the same arguments to continue a sweep that was stopped. None keeps
    nothing.
    progress: called with a `vispco.sweep.Progress` after each schedule.

    For several processes or machines, use `vispco.sweep.run` with an `EvaluatorSpec`.
    """
    evaluator = TaskEvaluator(model, processor, samples, scorer, kl=kl, batch_size=batch_size, share=SHARED_BYTES)
    with ExitStack() as stack:
        folder = directory if directory is not None else stack.enter_context(TemporaryDirectory())
        spec = SweepSpec(
            space=space,
            strategy=strategy,
            num_layers=evaluator.num_layers,
            trials=trials,
            seed=seed,
            budget=budget,
            cost=None if budget is None else SampleSizes.of(evaluator).fraction,
            earliest_layer=evaluator.scorer.earliest_layer,
        )
        return run(
            lambda: evaluator,
            spec,
            name=name,
            directory=folder,
            workers=SweepWorkers(0, "inline"),
            fingerprint=_fingerprint(evaluator),
            on_progress=progress,
        )


def _fingerprint(evaluator: TaskEvaluator) -> dict[str, Any]:
    """What the results depend on: a journal of another model, scorer or sample list is refused."""
    config, ids = evaluator.model.config, "\n".join(f"{sample.task} {sample.id}" for sample in evaluator.samples)
    return {
        "model": str(getattr(config, "name_or_path", "")) or type(evaluator.model).__name__,
        "scorer": evaluator.scorer.to_dict(),
        "samples": hashlib.sha256(ids.encode()).hexdigest()[:16],
        "kl": evaluator.with_kl,
    }
