"""`DemoOptions`: what a demo does, as a user types it; a `DemoSettings` once the model and the data are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import OneChain, budgets_of, budgets_option

if TYPE_CHECKING:
    from vispco.core.runs.run_folder import RunFolder
    from vispco.data.sample import Sample
    from vispco.report.demo.demo_settings import DemoSettings

CALIBRATION = 48  # items of each synthetic task, where --samples does not say: fewer than a search has, to be quick
SWEPT = "fastv"  # the scorer of the sweep beside a joint search


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What is searched, swept and timed."""

    scorer: OneChain = None
    kernel: Annotated[str, typer.Option(help="The family of curves that is searched.")] = "steps"
    mode: Annotated[str | None, typer.Option(help="joint, predictor, static or line (default: by --scorer).")] = None
    budgets: Annotated[str, budgets_option()] = "0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"
    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 16
    trials: Annotated[int, typer.Option(min=1, help="Configurations of the sweep beside the search.")] = 48
    timed: Annotated[str, typer.Option(help="Budgets whose time to first token is measured.")] = "0.3,0.4,0.5,0.8"
    rounds: Annotated[int, typer.Option(min=1, help="Timed rounds.")] = 5
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Prompts at once, when timing (default: chosen by a quick profile).")
    ] = None
    examples: Annotated[int, typer.Option(min=1, help="Pictures on the page.")] = 8
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0

    def check(self) -> None:
        """Refuse budgets that cannot be read."""
        budgets_of(f"{self.budgets},{self.timed}")

    def settings(
        self,
        model: ModelSpec,
        asked: TaskSpec,
        calibration: CalibrationSpec,
        folder: RunFolder,
        threads: int | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> DemoSettings:
        """The demo of a model on its data. threads: cores to use; say: told what was skipped."""
        import torch  # noqa: PLC0415

        from vispco.core.runs.provenance import cores  # noqa: PLC0415
        from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
        from vispco.report.demo.demo_settings import DemoSettings  # noqa: PLC0415
        from vispco.scorers import Chain  # noqa: PLC0415
        from vispco.timing import BenchSettings  # noqa: PLC0415

        few = calibration.data is None and calibration.samples is None
        chosen = replace(calibration, samples=CALIBRATION) if few else calibration

        def learn(processor: Any) -> tuple[Sequence[Sample], dict[str, Any]]:
            samples, about = chosen.load(asked, processor, seed=self.seed, say=say)
            if "areas" in about:  # of images, before and after downsampling
                folder.write_json("areas.json", about["areas"])
            return samples, about

        used = threads or cores()
        torch.set_num_threads(used)
        scorer = Chain.of(self.scorer or SWEPT).to_dict()
        return DemoSettings(
            spec=EvaluatorSpec(model=model, scorer=scorer, **asked.spec(), limit=self.test, details=False),
            learn=learn,
            calibration=str(chosen),
            mode=self.mode or ("joint" if self.scorer is None else "predictor"),
            kernel=self.kernel,
            budgets=tuple(budgets_of(self.budgets)),
            timed=tuple(budgets_of(self.timed)),
            trials=self.trials,
            bench=BenchSettings(rounds=self.rounds, new_tokens=8),
            batch_size=self.batch_size,
            examples=self.examples,
            workers=used if used > 1 else 0,
            seed=self.seed,
        )
