"""`train_scorer`: from a model, samples and a method's name to weights in a run folder that a chain can name."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator

from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.core.runs.provenance import machine, versions
from vispco.core.runs.run_folder import RunFolder
from vispco.cost import Dimensions
from vispco.scorers import SCORERS
from vispco.scorers.learned import LearnedScorer
from vispco.scorers.learned.network import TRAINED
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.gradient.training_loop import CHECKPOINT
from vispco.search.learned.scorer_trainer import LAST, ScorerSettings, ScorerTrainer
from vispco.search.objective import Objective
from vispco.version import __version__

if TYPE_CHECKING:
    from vispco.data.sample import Sample

_TRAINING = "training"


def check_method(method: str) -> type[LearnedScorer]:
    """The class of a method that can be trained; any other is refused."""
    found = {name: SCORERS.get(name) for name in SCORERS}
    learned = {name: kind for name, kind in found.items() if issubclass(kind, LearnedScorer)}
    if method not in learned:
        raise InvalidInputError(
            f"The method {method!r} has nothing to train. Methods that have: {', '.join(learned)}.{did_you_mean(method, learned)}"
        )
    return learned[method]


def train_scorer(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    method: str,
    settings: ScorerSettings | None = None,
    *,
    directory: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    cost: str = "exact",
    facts: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    show: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> LearnedScorer:
    """Train a method on samples (never those that it is evaluated on), and return it with its weights.

    method: such as 'dynamic-llava'. options: of its network. directory: the run folder; the same call continues where an
    earlier one was stopped. Afterwards '{method}(weights={directory})' is a scorer.
    """
    kind, settings = check_method(method), settings or ScorerSettings()
    target = kind.default_target if settings.target is None else settings.target
    settings = replace(settings, target=target)
    torch.manual_seed(settings.seed)
    scorer = kind.fresh(model, target=target, **(options or {}))
    config = scorer.network.config
    asked = {
        "method": method,
        "model": config.model,
        "dimensions": Dimensions.from_config(model.config).to_dict(),
        "cost": cost,
        "samples": len(samples),
        "network": config.options,
        "settings": asdict(settings),
    }
    accelerator = Accelerator()
    with ExitStack() as stack:
        folder: RunFolder | None = None
        if directory is not None and accelerator.is_main_process:  # of many processes, one owns the folder
            folder = stack.enter_context(RunFolder(directory, overwrite=overwrite).claim("train", asked))
            for name in (CHECKPOINT, "metrics.jsonl"):
                folder.file(f"{_TRAINING}/{name}")
        accelerator.wait_for_everyone()
        began = time.perf_counter()
        objective = Objective(model, scorer, cost=cost)
        say(f"vision tower and teacher: {len(samples)} samples, once each")
        batches = CalibrationBatches(
            model, processor, samples, batch_size=settings.batch_size, on_new=objective.add_teacher
        )
        trainer = ScorerTrainer(
            objective,
            scorer,
            batches,
            settings,
            directory=None if directory is None else Path(directory) / _TRAINING,
            accelerator=accelerator,
        )
        history = trainer.run(show=show)
        share = trainer.settle()
        last = history[-LAST:]
        say(
            f"{method}: KL {sum(r['kl'] for r in last) / len(last):.4g}, {share:.1%} of the FLOPs on the training samples"
        )
        if trainer.looks:
            best = min(trainer.looks, key=lambda look: look["kl"])
            say(
                f"held-out samples: KL {trainer.looks[0]['kl']:.4g} before training, {best['kl']:.4g} with the weights that "
                f"are kept, those of step {best['step']:.0f}"
            )
        scorer.network.half().float()  # what is saved is what is returned
        if folder is not None:
            with folder.staging(TRAINED) as temporary:
                copy.deepcopy(scorer.network).half().save_pretrained(temporary)
            folder.write_json(
                "config.json",
                {
                    "vispco": __version__,
                    **asked,
                    "versions": versions(),
                    "machine": machine(model.device),
                    **(facts or {}),
                    "share": share,
                    "held_out": trainer.looks,
                    "spent": objective.spent.to_dict(),
                    "seconds": time.perf_counter() - began,
                },
            )
            folder.finish()
    scorer.network.eval().requires_grad_(requires_grad=False)
    return scorer
