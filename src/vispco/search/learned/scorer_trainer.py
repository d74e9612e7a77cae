"""`ScorerTrainer`: the weights of a learned method, trained by the divergence from the unpruned model.

The loop is that of the predictor's training. The model runs masked, every choice of the method is hard in the forward
pass, and its gradient reaches the method's weights through the mask. So what is trained is what is deployed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from vispco.engine import TokenPlan
from vispco.errors import InvalidInputError
from vispco.evaluation.kl_meter import answer_logits
from vispco.layout import TokenLayout
from vispco.pruner import Pruner
from vispco.scorers.learned import LearnedScorer
from vispco.search.batch import Batch
from vispco.search.gradient.training_loop import TrainingLoop
from vispco.search.gradient.training_settings import LoopSettings
from vispco.search.objective import Objective, frozen

LAST = 10  # steps that tell where a training stands
PROBED = 8  # batches on which a controller settles


@dataclass(frozen=True)
class ScorerSettings(LoopSettings):
    """Of a learned method.

    target: what it aims at, in the method's own unit; None for its published one. batch_size: samples of a batch.
    weight: of the method's own terms beside the divergence. settle: most rounds over some batches, after training, in
    which a method with a controller comes to its target; tolerance: how near, as a share of FLOPs.
    """

    steps: int = 300
    rate: float = 1e-3
    target: float | None = None
    batch_size: int = 16
    weight: float = 1.0
    settle: int = 20
    tolerance: float = 0.005

    def __post_init__(self) -> None:
        if self.target is not None and not 0.0 < self.target <= 1.0:
            raise InvalidInputError(f"target={self.target} was given. Give a share above 0, up to 1.")
        if min(self.steps, self.batches, self.batch_size, self.save_every) < 1 or self.rate <= 0:
            raise InvalidInputError(
                f"steps={self.steps}, batches={self.batches}, batch_size={self.batch_size}, save_every={self.save_every}, "
                f"rate={self.rate} were given. Give 1 or more of each, and a rate above 0."
            )


class ScorerTrainer(TrainingLoop):
    """Trains a `LearnedScorer` over prepared batches. One record a step: KL, and the share of FLOPs that it took.

    The rest is said of `TrainingLoop`.
    """

    part = "scorer"

    def __init__(
        self,
        objective: Objective,
        scorer: LearnedScorer,
        batches: Sequence[Batch],
        plan: ScorerSettings,
        *,
        directory: str | Path | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:
        self.scorer, self.plan, self.target = scorer, plan, float(scorer.network.config.target)
        self._shares: list[float] = []
        super().__init__(objective, scorer.network, batches, plan, directory=directory, accelerator=accelerator)

    def loss(self, batch: Batch, place: int) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        self.scorer.begin(self.step / max(self.plan.steps - 1, 1))
        kl, share = self._run(batch)
        spent = self.objective.full_flops(batch)  # masking computes every token
        self.objective.spent.forward += spent
        self.objective.spent.backward += 2 * spent
        self._shares.append(float(share.mean()))
        unused = sum((0.0 * p.sum() for p in self.scorer.network.parameters()), kl.new_zeros(()))
        penalty = self.scorer.penalty(self.target).to(kl.device)
        return kl.mean() + unused, self.plan.weight * penalty

    def after_step(self) -> dict[str, float]:
        share = float(self.mean(torch.tensor(self._shares, dtype=torch.float64).mean()))
        self._shares.clear()
        self.scorer.adjust(share, self.target)
        return {"share": share}

    def settle(self) -> float:
        """After training: bring a method with a controller to its target. Returns the mean share of FLOPs then.

        A method whose number of tokens is the schedule's has none of its own: then it is the mean of the last steps.
        """
        self.module.eval()
        if not self.scorer.decides_count:
            last = self.history[-LAST:]
            return sum(record["share"] for record in last) / max(len(last), 1)
        share = self.share()
        for _ in range(self.plan.settle):
            if abs(share - self.target) <= self.plan.tolerance or not self.scorer.adjust(share, self.target):
                break
            share = self.share()
        return share

    @torch.no_grad()
    def share(self) -> float:
        """The mean share of FLOPs over the first batches, as it is deployed."""
        ranks, rank = self.accelerator.num_processes, self.accelerator.process_index
        found = [self._run(self.batches[n])[1] for n in range(rank, min(PROBED, len(self.batches)), ranks)]
        sums = torch.tensor([sum(float(s.sum()) for s in found), sum(len(s) for s in found)], dtype=torch.float64)
        total, count = self.mean(sums).tolist()
        return float(total / max(count, 1e-9))

    def prepare(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
        """The engine calls the network itself, so nothing wraps it; `share_gradients` averages instead."""
        return module, self.accelerator.prepare(optimizer)

    def alone(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def share_gradients(self) -> None:
        if self.accelerator.num_processes > 1:
            for parameter in self.module.parameters():
                if parameter.grad is not None:
                    parameter.grad.copy_(self.accelerator.reduce(parameter.grad, "mean"))

    def _run(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """KL [B] with a gradient, and the share of the prompt's FLOPs that the method's choices take, [B]."""
        model = self.objective.model

        def everything(layout: TokenLayout, _: Tensor) -> TokenPlan:
            counts = torch.tensor(layout.num_visual)[:, None].expand(-1, self.objective.cost.num_layers)
            return TokenPlan(counts.contiguous())

        pruner = Pruner(self.scorer, everything, mode="mask")
        with frozen(model), pruner(model):
            logits = answer_logits(model, batch.encoded)
            counts = pruner.token_counts(model)
        workload = self.objective.workload(batch.num_text, batch.num_visual)
        share = self.objective.cost.price(counts, workload).double() / self.objective.cost.full(workload).double()
        return self.objective.divergence(logits, batch), share
