"""The objective of every search: how far a pruned model's answers are from the unpruned model's, per sample."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from vispco import cost as costs
from vispco.core.layout import TokenLayout
from vispco.core.schedule import whole_tokens
from vispco.cost import Cost, Workload
from vispco.engine.plan import TokenPlan
from vispco.engine.replay import Prefix
from vispco.evaluation.caches import GIB
from vispco.evaluation.candidate import first_drop
from vispco.evaluation.kl_meter import Direction, KlMeter, answer_logits
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain, ChainLike
from vispco.scorers.cost import workload_under
from vispco.search.batch import Batch
from vispco.search.bill import FlopsBill
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.search_journal import SearchJournal, work_key


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Inside the block no weight of the model requires a gradient; afterwards those that did require one again."""
    learning = [p for p in model.parameters() if p.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


class _FixedPlan:
    """A planner that gives one plan, whatever comes. tower: the retention of a cut vision tower."""

    def __init__(self, plan: TokenPlan, tower: tuple[float, ...] | None) -> None:
        self.plan, self.tower = plan, tower

    def __call__(self, *_: Any) -> TokenPlan:
        return self.plan


class Objective:
    """KL of a model under schedules, measured by dropping tokens or relaxed with a gradient, and its price in FLOPs."""

    def __init__(
        self,
        model: Any,
        scorer: ChainLike,
        *,
        cost: str | Cost = "exact",
        relaxation: GaussianMask | None = None,
        direction: Direction = "pruned||full",
        memory: int = 2 * GIB,
    ) -> None:
        self.model, self.scorer, self.meter = model, Chain.of(scorer), KlMeter(direction)
        self.cost = costs.get(cost, model.config) if isinstance(cost, str) else cost
        self.relaxation = relaxation or GaussianMask()
        self.tower: tuple[float, ...] | None = None  # the retention of a vision tower that is cut
        self.memory = memory  # bytes for what unpruned first layers compute
        self.spent = FlopsBill()
        self.taught: dict[str, float] = {}  # batches whose teacher is on the bill: name -> FLOPs
        self.journal: SearchJournal | None = None  # where one is given, nothing is measured twice

    def with_chain(self, chain: ChainLike) -> Objective:
        """The same objective under another chain of scorers, on the same bill and with the same journal."""
        other = copy.copy(self)
        other.scorer, other.taught = Chain.of(chain), {}
        return other

    def workload(self, sizes: Tensor) -> Workload:
        """Samples of these sizes (int64 [B, 2 or 4], see `TokenLayout.prompt_sizes`), pruned by the scorer."""
        return workload_under(self.scorer, self.cost.dimensions, *sizes.T)

    def _with_answers(self, batch: Batch) -> Workload:
        return replace(self.workload(batch.sizes), num_text=batch.num_text + batch.num_answer)

    def add_teacher(self, batch: Batch) -> None:
        """Put the teacher's pass over a batch on the bill, once: a search that continues runs it again."""
        if batch.name not in self.taught:
            self.taught[batch.name] = self.full_flops(batch)
            self.spent.teacher += self.taught[batch.name]

    def measure_kl(self, batch: Batch, counts: Tensor) -> Tensor:
        """KL [C, B] of candidate schedules counts [C, B, L] (whole tokens), tokens really dropped."""
        if self.journal is None:
            return torch.stack([self.divergence(logits, batch) for logits in self.pruned_logits(batch, counts)])
        asked = (batch.name, self.scorer.to_dict(), self.meter.direction, self.tower or ())
        names = [work_key(*asked, one.cpu().numpy().tobytes()) for one in counts]
        new = [place for place, name in enumerate(names) if name not in self.journal]
        for place in set(range(len(names))) - set(new):
            self._bill(counts[place], batch)  # as if it had not been known
        for place, logits in zip(new, self.pruned_logits(batch, counts[new]), strict=True):
            self.journal.add(names[place], self.divergence(logits, batch).tolist())
        found = [self.journal[name] for name in names]
        return torch.tensor(found, dtype=batch.teacher.dtype, device=batch.teacher.device)

    @torch.no_grad()
    def pruned_logits(self, batch: Batch, counts: Tensor) -> Iterator[Tensor]:
        """Answer logits [B, A, V] under each of candidate schedules counts [C, B, L].

        What the candidates' unpruned first layers compute is computed once. That saves time; on the bill, every
        candidate stands with its whole price, as it would in any other search.
        """
        starts = [first_drop(one, batch.encoded.num_visual) for one in counts]
        prefix = Prefix(self.model, self.scorer)
        size = (
            batch.encoded.inputs["input_ids"].numel() * self.cost.dimensions.hidden * self.cost.dimensions.dtype_bytes
        )
        size *= max(starts, default=0) * (3 if self.scorer.needs_attention else 1)  # states, queries and keys
        # else recording the unpruned run costs more than it saves or than there is; it would see what a cut tower has left
        pays = sum(starts) > counts.shape[-1] and size <= self.memory and self.tower is None
        if pays:
            with prefix.record(max(starts)):
                answer_logits(self.model, batch.encoded)
        for one in counts:
            resumed = prefix.resume() if pays else nullcontext()
            with Pruner(self.scorer, _FixedPlan(TokenPlan(one), self.tower))(self.model), resumed:
                logits = answer_logits(self.model, batch.encoded)
            self._bill(one, batch)
            yield logits

    def relaxed_kl(self, batch: Batch, retention: Tensor) -> Tensor:
        """KL [B] of a retention [B, L] with a gradient: hard masks forward, the paper's relaxation backward."""
        plan = TokenPlan(whole_tokens(retention, batch.num_visual), retention)

        def planner(layout: TokenLayout, _: Tensor) -> TokenPlan:
            self.relaxation.begin(layout)
            return plan

        pruner = Pruner(self.scorer, planner, mode="mask", relaxation=self.relaxation)
        with pruner(self.model):
            logits = answer_logits(self.model, batch.encoded)
        spent = self.full_flops(batch)  # masking computes every token
        self.spent.forward += spent
        if retention.requires_grad:
            self.spent.backward += 2 * spent
        return self.divergence(logits, batch)

    def divergence(self, logits: Tensor, batch: Batch) -> Tensor:
        """KL [B] of answer logits [B, A, V] from the unpruned model's, differentiable in them."""
        return self.meter(logits, batch.teacher, batch.encoded.answer_mask)

    def _bill(self, counts: Tensor, batch: Batch) -> None:
        """Put a measured pass on the bill."""
        L, workload = counts.shape[1], self._with_answers(batch)
        spent = float(self.cost.bill(counts, workload).sum())
        # shared: without the layers before each sample's first drop, which every unpruned pass computes
        whole = (counts == batch.num_visual[:, None]).long().cumprod(-1).sum(-1)  # layers that every token enters
        mid = torch.tensor([self.scorer.site_at(layer) == "mid" for layer in range(L)] + [False])
        whole = torch.where(mid[whole], (whole - 1).clamp_min(0), whole)  # the last one's network sees fewer
        self.spent.measured += spent
        self.spent.shared += spent - float((self.cost.full(workload) * whole / L).sum())

    def full_flops(self, batch: Batch) -> float:
        """Of an unpruned pass over a batch with its answers."""
        return float(self.cost.full(self._with_answers(batch)).sum())
