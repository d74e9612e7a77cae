"""`ComparisonSetup`: model, test set, calibration set and evaluators that all methods of a table share."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from PIL import Image
from torch import Tensor

from vispco import cost as costs
from vispco.compare.methods.second_turn import SecondTurns
from vispco.core.errors import UnsupportedModelError
from vispco.cost import Cost, Dimensions, Workload
from vispco.evaluation.candidate import Candidate
from vispco.evaluation.encoded import Encoded, encode, pad_token
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.features import FeatureStore
from vispco.evaluation.kl_meter import Reference
from vispco.evaluation.result import Evaluation
from vispco.families import family_of
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.search_spec import Effort
from vispco.timing.prefill import time_generation
from vispco.timing.timing import paired_speedup

_SHRINK = 4
"""By how much the sides of a picture are divided to find the items that need its details."""
_TIMED = 2  # prompts
_RIGHT = 0.5  # a score from here on is a right answer


class _LayerInputs(Cost):
    """Visual tokens that all layers take in."""

    name: ClassVar[str] = "layer-inputs"
    unit: ClassVar[str] = "tokens"

    def price(self, counts: Tensor, workload: Workload) -> Tensor:  # noqa: ARG002
        return counts.sum(dim=-1).clamp_min(1)


@dataclass
class ComparisonSetup:
    """Evaluates candidates of any chain. test, calibration: samples; progress: (samples done, samples in all)."""

    model: Any
    processor: Any
    test: Sequence[Any]
    calibration: Sequence[Any]
    batch_size: int = 64
    progress: Callable[[int, int], None] | None = None
    _store: FeatureStore = field(init=False)
    _reference: Reference = field(init=False)

    def __post_init__(self) -> None:
        self._store, self._reference = FeatureStore(self.model, self.processor), Reference(self.model)
        self.num_layers = len(family_of(self.model).layers(self.model))

    def expect(self, chain: Chain) -> None:
        """Say that a chain will be measured, before the first one is: then the vision tower runs once for all of them."""
        self._store.require(chain.needs_vision)

    def evaluator(self, chain: Chain, *, calibration: bool = False) -> TaskEvaluator:
        """For one method; what was encoded for another is used again."""
        found = TaskEvaluator(
            self.model,
            self.processor,
            self.calibration if calibration else self.test,
            chain,
            batch_size=self.batch_size,
            costs=("exact", "kv-bytes"),
            details=True,
            store=self._store,
            reference=self._reference,
            progress=self.progress,
        )
        dimensions: Dimensions = found.costs["exact"].dimensions
        found.costs = {**found.costs, _LayerInputs.name: _LayerInputs(dimensions)}
        return found

    @cached_property
    def batches(self) -> CalibrationBatches:
        """The calibration set as searches read it: what the unpruned model says of it is computed once."""
        size = Effort().batch_size
        return CalibrationBatches(self.model, self.processor, self.calibration, batch_size=size, store=self._store)

    @cached_property
    def unpruned(self) -> Evaluation:
        """The model itself on the test set."""
        return self.evaluator(Chain.of("random"))(None)

    @cached_property
    def hard(self) -> frozenset[str]:
        """Ids of the items that the unpruned model gets wrong when their pictures have lost their details."""
        blurred = [sample.with_images([_coarse(image) for image in sample.images]) for sample in self.test]
        evaluator = TaskEvaluator(
            self.model,
            self.processor,
            blurred,
            "random",
            batch_size=self.batch_size,
            details=True,
            progress=self.progress,
        )
        answers = evaluator(None).details["predictions"]
        return frozenset(sample.id for sample in self.test if sample.score(answers[sample.id]) < _RIGHT)

    def second_turn(self, chain: Chain, candidate: Candidate) -> dict[str, float | None]:
        """The field of a `MethodTableRow` that asks a second question on the tokens that the first one left."""
        return {"second_turn": self._second_turns.accuracy(chain, candidate)}

    @cached_property
    def _second_turns(self) -> SecondTurns:
        return SecondTurns(self.model, self.processor, self.test, self._store, self.num_layers, self.batch_size)

    def measures(self, found: Evaluation) -> dict[str, Any]:
        """The fields of a `MethodTableRow` that an evaluation gives."""
        answers, full = found.details["predictions"], self.unpruned.details["predictions"]
        hard = [sample.score(answers[sample.id]) for sample in self.test if sample.id in self.hard]
        return {
            "accuracy": found.accuracy,
            "low": found.low,
            "high": found.high,
            "tasks": {task.task: (task.accuracy, task.low, task.high) for task in found.tasks},
            "scores": {task: tuple(scores) for task, scores in found.details["scores"].items()},
            "loyalty": statistics.fmean(answers[name] == full[name] for name in full),
            "hard_accuracy": statistics.fmean(hard) if hard else None,
            "fraction": found.fraction["exact"],
            "prefill": found.fraction.get("prefill"),
            "flops": found.flops["exact"],
            "kv_bytes": found.flops["kv-bytes"],
            "mean_inputs": found.flops[_LayerInputs.name] / self.num_layers,
        }

    def sampled(self, evaluations: Sequence[Evaluation]) -> dict[str, Any]:
        """The same of several draws: means, and the standard deviation of the accuracy in place of its interval."""
        each = [self.measures(found) for found in evaluations]
        means: dict[str, Any] = {
            key: None if value is None else statistics.fmean(one[key] for one in each)
            for key, value in each[0].items()
            if key not in ("tasks", "scores")
        }
        tasks = {
            task: tuple(statistics.fmean(one["tasks"][task][place] for one in each) for place in range(3))
            for task in each[0]["tasks"]
        }
        spread = statistics.stdev(one["accuracy"] for one in each) if len(each) > 1 else 0.0
        return {**means, "low": None, "high": None, "deviation": spread, "tasks": tasks}

    def times(self, makers: Mapping[str, Callable[[int], Pruner]], rounds: int) -> dict[str, dict[str, float]]:
        """Time to the first token of pruners, interleaved with the unpruned model, on one prompt of each of a few tasks.

        makers: by name, from a sample's place in the test set to its pruner. The first round warms up and is not counted.
        """
        makers = {} if not rounds else makers
        pruners = {(name, place): make(place) for name, make in makers.items() for place in self._timed}
        seconds: dict[str, list[float]] = {name: [] for name in ("", *makers)}
        for number in range(rounds + 1 if makers else 0):
            order = list(seconds) if number % 2 else list(reversed(seconds))
            for place, prompt in self._timed.items():
                for name in order:
                    found = time_generation(
                        self.model, prompt, pruners.get((name, place)), 1, pad_token(self.processor)
                    )
                    seconds[name] += [found.first] if number else []
        return {
            name: {
                "milliseconds": 1e3 * statistics.median(seconds[name]),
                "speedup": paired_speedup(seconds[""], seconds[name]),
            }
            for name in makers
        }

    @cached_property
    def _timed(self) -> dict[int, Encoded]:
        """Prompts with their pictures, by place in the test set: the first of each of a few tasks."""
        first = {sample.task: place for place, sample in reversed(list(enumerate(self.test)))}
        places = sorted(first.values())[:_TIMED]
        return {place: encode(self.model, self.processor, [self.test[place]]) for place in places}

    @cached_property
    def tower_share(self) -> float | None:
        """The share of vision tower and projector in the FLOPs of a few prompts' whole prefill; None if it is not described."""
        language, tower = 0.0, 0.0
        for prompt in self._timed.values():
            try:
                tower += float(family_of(self.model).layout(self.model, prompt.inputs).tower_flops.sum())
            except UnsupportedModelError:
                return None
            language += float(
                costs.get("exact", self.model.config).full(Workload(prompt.num_text, prompt.num_visual)).sum()
            )
        return tower / (tower + language)


def _coarse(image: Image.Image) -> Image.Image:
    """A picture of the same size without its details."""
    small = image.resize((max(1, image.width // _SHRINK), max(1, image.height // _SHRINK)), Image.Resampling.BOX)
    return small.resize(image.size, Image.Resampling.BICUBIC)
