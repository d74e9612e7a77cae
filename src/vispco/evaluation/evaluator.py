"""`TaskEvaluator`: schedule in, accuracy and cost out, on `generate()` of the unmodified model under a pruner; `evaluate`."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from vispco import cost
from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.data.files.samples import SampleSet
from vispco.evaluation.caches import PrefixCache
from vispco.evaluation.candidate import Candidate, CandidateRun
from vispco.evaluation.encoded import Encoded, SampleBatch, answer_limits, batches, end_tokens, pad_token, read
from vispco.evaluation.features import FeatureStore
from vispco.evaluation.kl_meter import Reference, answer_logits
from vispco.evaluation.tally import Tally, TowerFlops, mean
from vispco.families import family_of
from vispco.pruner.picture_setting import shrink_processor
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain, ChainLike

if TYPE_CHECKING:
    from vispco.data.sample import Sample
    from vispco.evaluation.kl_meter import Direction
    from vispco.evaluation.result import Evaluation

Progress = Callable[[int, int], None]
"""(samples done, samples in all), counted once for each candidate."""


def _task_score(sample: Sample, prediction: str) -> float:
    return sample.score(prediction)


@dataclass(frozen=True, kw_only=True)
class EvaluatorOptions:
    """How a `TaskEvaluator` runs, and what it measures and keeps.

    max_new_tokens: of each answer; default: what a benchmark allows, and elsewhere what the longest reference answer takes.
    score: (sample, prediction) -> [0, 1]; default: the metric of the sample's task.
    kl: also measure the KL to the full model, on teacher-forced answers (`direction`). Where people gave different
        answers there is no reference; the full model's own answer takes its place.
    share: bytes for the unpruned run of each batch, from which later candidates resume at their first pruned layer; 0 for
        none. `many` shares in any case, batch by batch.
    details: keep every prediction in `Evaluation.details["predictions"]`, and what `scores` keeps.
    scores: keep every item's score in `Evaluation.details["scores"]`, for `vispco.evaluation.paired`.
    """

    batch_size: int = 64
    max_new_tokens: int | None = None
    costs: Sequence[str] = ("exact", "paper")
    score: Callable[[Sample, str], float] = _task_score
    kl: bool = False
    direction: Direction = "pruned||full"
    share: int = 0
    details: bool = False
    scores: bool = False

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise InvalidInputError(f"max_new_tokens={self.max_new_tokens} was given. Give 1 or more.")


class TaskEvaluator:
    """Evaluates candidates (a `Schedule`, a planner, a `Pruner`, or None for the full model) on a fixed list of samples.

    Pictures are encoded once, whatever the number of candidates. Decoding is greedy. options: of `EvaluatorOptions`.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        samples: Sequence[Sample],
        scorer: ChainLike = "fastv",
        *,
        store: FeatureStore | None = None,
        reference: Reference | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        self.model, self.processor, self.samples = model, processor, list(samples)
        self.chain = Chain.of(scorer)
        self.options = asked = EvaluatorOptions(**options)
        self.sample_set = SampleSet.of(samples)
        self.skipped = self.sample_set.skipped
        self.longest, answers = answer_limits(model, processor, self.samples, asked.max_new_tokens)
        self.batches = batches(self.samples, asked.batch_size, answers)
        self.max_new_tokens = max(self.longest)
        self.tasks = list(dict.fromkeys(sample.task for sample in self.samples))
        self.progress = progress
        self.costs: Mapping[str, cost.Cost] = {name: cost.get(name, model.config) for name in asked.costs}
        self.store = store if store is not None else FeatureStore(model, processor)
        self.reference = reference if reference is not None else Reference(model)
        self.prefixes = PrefixCache(asked.share)
        self._answered: set[str] = set()
        self.pixels = 1.0
        self.whole: TaskEvaluator | None = None  # of which this one shows the pictures smaller
        self._smaller: dict[float, TaskEvaluator] = {}
        self._whole_pictures: dict[str, tuple[int, int]] = {}  # FLOPs of the tower and visual tokens, by sample
        self.num_layers = len(family_of(model).layers(model))

    def on(self, samples: SampleSet[Sample], *, progress: Progress | None = None) -> TaskEvaluator:
        """An evaluator of the same model, scorer and batch size on other samples."""
        asked = samples.for_model(self.model, self.processor)
        return TaskEvaluator(
            self.model, self.processor, asked, self.chain, batch_size=self.options.batch_size, progress=progress
        )

    @property
    def scorer(self) -> Chain:
        """The chain of scorers that schedules and planners are run with."""
        return self.chain

    def __call__(self, candidate: Candidate = None) -> Evaluation:
        """Accuracy by task, FLOPs, and KL if it was asked for."""
        return self.many([candidate])[0]

    def many(self, candidates: Sequence[Candidate]) -> list[Evaluation]:
        """Several candidates in one pass over the data; what their unpruned first layers compute is computed once."""
        shares = [getattr(candidate, "pixels", 1.0) for candidate in candidates]
        if self.whole is None and any(share != 1.0 for share in shares):
            found: dict[int, Evaluation] = {}
            for share in dict.fromkeys(shares):
                places = [place for place, own in enumerate(shares) if own == share]
                evaluations = self.at_pixels(share).many([candidates[place] for place in places])
                found |= dict(zip(places, evaluations, strict=True))
            return [found[place] for place in range(len(candidates))]
        asked = self.options
        runs = [self._run_of(candidate) for candidate in candidates]
        tallies = [Tally(self.costs) for _ in runs]
        shared = sum(run.layers_saved for run in runs) > self.num_layers  # else the unpruned run does not pay
        for number, batch in enumerate(self.batches):
            encoded = self.store.encode(batch.samples)
            for place, (run, tally) in enumerate(zip(runs, tallies, strict=True)):
                began = time.perf_counter()
                own = encoded if run.cut is None else self.store.encode(batch.samples, cut=run.cut)
                answers = self._generated(run, batch, own, number, hold=shared)
                tally.add_answers(batch.samples, answers, self.options.score)
                assert run.counts is not None  # noqa: S101 - set by the run
                assert run.workload is not None  # noqa: S101 - likewise
                tally.add_cost(run.counts, run.workload, self._tower_flops(run, batch, encoded))
                tally.seconds += time.perf_counter() - began
                if self.progress is not None:
                    before = sum(len(batch.rows) for batch in self.batches[:number])
                    self.progress(before * len(runs) + len(batch.rows) * (place + 1), len(self.samples) * len(runs))
            self.prefixes.release(("prompt", number))
            if self.options.kl:
                for run, tally in zip(runs, tallies, strict=True):
                    began = time.perf_counter()
                    tally.kl += self._divergences(run, batch, number, self.options.direction, hold=shared)
                    tally.seconds += time.perf_counter() - began
                self.prefixes.release(("answer", number))
        return [
            tally.evaluation(self.tasks, self.sample_set, details=asked.details, scores=asked.scores)
            for tally in tallies
        ]

    def at_pixels(self, share: float) -> TaskEvaluator:
        """The same evaluator with pictures that enter with a share of their pixels; KL is to the model on whole pictures."""
        if share == 1.0 or self.whole is not None:
            return self
        if share not in self._smaller:
            found = copy.copy(self)
            found.whole, found.pixels, found.prefixes = self, share, PrefixCache(self.prefixes.memory)
            found.store = FeatureStore(self.model, shrink_processor(self.processor, share))
            self._smaller[share] = found
        return self._smaller[share]

    def _tower_flops(self, run: CandidateRun, batch: SampleBatch, encoded: Encoded) -> TowerFlops | None:
        """What the vision tower took for a batch; None for towers that are not described."""
        family = family_of(self.model)
        try:
            own = torch.from_numpy(family.layout(self.model, encoded.inputs, pixels=self.pixels).tower_flops)
        except UnsupportedModelError:
            return None
        spent = own if run.tower_flops is None else run.tower_flops
        if self.whole is None:
            return TowerFlops(spent, own, torch.tensor(encoded.num_visual))
        for sample in batch.samples:
            if sample.id not in self._whole_pictures:
                whole = family.layout(self.model, read(self.model, self.processor, sample).tensors)
                self._whole_pictures[sample.id] = (int(whole.tower_flops[0]), int(whole.num_visual[0]))
        full, shown = torch.tensor([self._whole_pictures[sample.id] for sample in batch.samples]).T
        return TowerFlops(spent, full, shown)

    def kl(self, candidate: Candidate, direction: Direction | None = None) -> float:
        """Mean KL to the full model, each sample's mean over its answer; one forward pass a batch, no generation."""
        if self.whole is None and getattr(candidate, "pixels", 1.0) != 1.0:
            return self.at_pixels(candidate.pixels).kl(candidate, direction)  # type: ignore[union-attr]
        run = self._run_of(candidate)
        found: list[float] = []
        for number, batch in enumerate(self.batches):
            found += self._divergences(run, batch, number, direction or self.options.direction, hold=False)
            self.prefixes.release(("answer", number))
        return mean(found)

    def _generated(
        self, run: CandidateRun, batch: SampleBatch, encoded: Encoded, number: int, *, hold: bool
    ) -> list[str]:
        key = ("prompt", number)
        tokens = self._run(run, batch, encoded, key, lambda: self._written(batch, encoded), hold=hold)
        own = [row[: self.longest[place]] for row, place in zip(tokens, batch.rows, strict=True)]
        return [text.strip() for text in self.processor.batch_decode(own, skip_special_tokens=True)]

    def _written(self, batch: SampleBatch, encoded: Encoded) -> torch.Tensor:
        """The tokens of the answers, greedily: [B, A]; each sample's own limit is at most A."""
        tokens: torch.Tensor = self.model.generate(
            **encoded.inputs,
            max_new_tokens=max(self.longest[place] for place in batch.rows),
            do_sample=False,
            num_beams=1,
            pad_token_id=pad_token(self.processor),
        )
        return tokens[:, encoded.length :]

    def _answer_itself(self, batch: SampleBatch) -> None:
        """Where a sample has no single reference, what the unpruned model says takes its place; asked once."""
        places = [n for n, s in enumerate(batch.samples) if not s.answer and s.id not in self._answered]
        if not places:
            return
        silent = SampleBatch(tuple(batch.rows[n] for n in places), tuple(batch.samples[n] for n in places))
        ends = end_tokens(self.model, self.processor)
        answers = []
        for row, tokens in zip(silent.rows, self._written(silent, self.store.encode(silent.samples)), strict=True):
            own = tokens[: self.longest[row]].tolist()
            end = next((n + 1 for n, token in enumerate(own) if token in ends), len(own))
            answers.append(torch.tensor(own[:end]))
        self.store.answered(silent.samples, answers)
        self._answered |= {sample.id for sample in silent.samples}

    def _divergences(
        self, run: CandidateRun, batch: SampleBatch, number: int, direction: Direction, *, hold: bool
    ) -> list[float]:
        self._answer_itself(batch)
        encoded, key = self.store.encode(batch.samples, answers=True), ("answer", number)
        if not self.reference.has(encoded):
            record = self.prefixes.wanted(key, hold=hold)
            with self.prefixes.recording(key, self.model, run.chain) if record else nullcontext():
                # the reference sees whole pictures
                whole = encoded if self.whole is None else self.whole.store.encode(batch.samples, answers=True)
                self.reference.compute(whole)

        def forward() -> torch.Tensor:
            own = encoded if run.cut is None else self.store.encode(batch.samples, answers=True, cut=run.cut)
            with torch.no_grad():
                return answer_logits(self.model, own)

        logits = self._run(run, batch, encoded, key, forward, hold=hold)
        found: list[float] = self.reference.kl(logits, encoded, direction).tolist()
        return found

    def _run(
        self,
        run: CandidateRun,
        batch: SampleBatch,
        encoded: Encoded,
        key: tuple[str, int],
        action: Callable[[], torch.Tensor],
        *,
        hold: bool,
    ) -> torch.Tensor:
        """Run `action` under the candidate's pruner; if the unpruned run is kept, resume where pruning begins."""
        if run.cut is not None:  # no layer is entered by what the unpruned model has
            with run.on(self.model, batch.rows, encoded):
                return action()
        if self.prefixes.wanted(key, hold=hold):
            with self.prefixes.recording(key, self.model, run.chain):
                action()
        prefix = self.prefixes.get(key)
        resumed = nullcontext() if prefix is None else prefix.resume()
        with run.on(self.model, batch.rows, encoded), resumed:
            return action()

    def _run_of(self, candidate: Candidate) -> CandidateRun:
        run = CandidateRun(candidate, self.chain, self.num_layers, len(self.samples))
        self.store.require(run.chain.needs_vision)
        return run


def evaluate(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    pruner: Pruner | None = None,
    kl: bool = False,
    details: bool = False,
    max_new_tokens: int | None = None,
    batch_size: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Answer every sample by greedy decoding; return accuracy by task, and mean FLOPs by each cost.

    model, processor: as `vispco.load` returns them.
    samples: what is asked, such as `vispco.data.dataset("test")`.
    pruner: how the model is pruned; None for the unpruned model.
    kl: also measure the KL divergence of the answers from those of the unpruned model.
    details: keep every prediction, in `Evaluation.details["predictions"]`.
    max_new_tokens: of each answer; default: what its benchmark allows, or the length of the longest reference answer.
    progress: called with (samples done, all samples).

    To compare many pruners on the same samples, make one `TaskEvaluator`: it encodes pictures once.
    """
    if pruner is not None and not isinstance(pruner, Pruner):
        raise InvalidInputError(
            f"pruner={pruner!r} was given. Give a Pruner, such as Pruner('fastv', schedule), or None for the unpruned model."
        )
    evaluator = TaskEvaluator(
        model,
        processor,
        samples,
        kl=kl,
        details=details,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        progress=progress,
    )
    return evaluator(pruner)
