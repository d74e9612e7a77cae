"""`ScorerTrainer`: the weights of a learned method, trained by the divergence from the unpruned model.

The loop is that of the predictor's training. The model runs masked, every choice of the method is hard in the forward
pass, and its gradient reaches the method's weights through the mask. So what is trained is what is deployed.

A few batches are held out. From time to time the running mean of the weights is brought to the target and measured on
them as it is deployed; the start is measured first. The one with the least KL is the result: at equal cost, a training
that does not help leaves the method as it was.
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

from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.core.schedule import Schedule
from vispco.engine import TokenPlan
from vispco.evaluation.kl_meter import answer_logits
from vispco.pruner.pruner import Pruner
from vispco.scorers.learned import LearnedScorer
from vispco.search.batch import Batch
from vispco.search.calibration_batches import PickedBatches
from vispco.search.gradient.training_loop import TrainingLoop, tensors_of
from vispco.search.gradient.training_settings import LoopSettings
from vispco.search.objective import Objective, frozen

LAST = 10  # steps that tell where a training stands
_PROBED = 8  # batches on which a controller settles at the end
_FEWEST = 4  # batches of which some are held out
_FEW, _ROUNDS = 3, 6  # batches and rounds in which it settles before a look at what is held out
_GAIN, _MOST, _LEAST = 2.0, 16.0, 0.5  # of a settling controller: grows while it stays on one side of the target


@dataclass(frozen=True)
class ScorerSettings(LoopSettings):
    """Of a learned method.

    target: what it aims at, in the method's own unit; None for its published one. batch_size: samples of a batch.
    weight: of the method's own terms beside the divergence. settle: most rounds over some batches, after training, in
    which a method with a controller comes to its target; tolerance: how near, in the unit of the target. held_out: share of
    the batches that is not trained on, where there are at least four. look_every: steps between two looks at them. memory:
    of the running mean of the weights, per step.
    """

    steps: int = 120
    rate: float = 1e-3
    target: float | None = None
    batch_size: int = 16
    weight: float = 1.0
    settle: int = 20
    tolerance: float = 0.005
    held_out: float = 0.15
    look_every: int = 40
    memory: float = 0.95

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
        self._shares: list[tuple[float, float]] = []
        held = round(plan.held_out * len(batches)) if len(batches) >= _FEWEST else 0
        places = range(len(batches))
        self.held_out = PickedBatches(batches.__getitem__, places[len(places) - held :])
        batches = PickedBatches(batches.__getitem__, places[: len(places) - held])
        self.looks: list[dict[str, float]] = []
        self._mean = _copied(scorer.network)
        self._best = _copied(scorer.network)
        super().__init__(objective, scorer.network, batches, plan, directory=directory, accelerator=accelerator)

    def run(self, *, show: bool = False) -> list[dict[str, float]]:
        """Train to the end of the plan; the weights are then the best that a look has found."""
        if self.held_out and not self.looks:
            self._look()
        history = super().run(show=show)
        if self.held_out:
            self.scorer.network.load_state_dict(self._best)
        return history

    def loss(self, batch: Batch, place: int) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        self.scorer.begin(self.step / max(self.plan.steps - 1, 1))
        kl, share, reached = self._run(batch)
        spent = self.objective.full_flops(batch)  # masking computes every token
        self.objective.spent.forward += spent
        self.objective.spent.backward += 2 * spent
        self._shares.append((float(share.mean()), float(reached.mean())))
        unused = sum((0.0 * p.sum() for p in self.scorer.network.parameters()), kl.new_zeros(()))
        penalty = self.scorer.penalty(self.target).to(kl.device)
        return kl.mean() + unused, self.plan.weight * penalty

    def after_step(self) -> dict[str, float]:
        share, reached = self.mean(torch.tensor(self._shares, dtype=torch.float64).mean(0)).tolist()
        self._shares.clear()
        self.scorer.adjust(reached, self.target)
        for name, tensor in self.scorer.network.state_dict().items():
            self._mean[name].lerp_(tensor.detach(), 1.0 - self.plan.memory)
        if self.held_out and (self.step + 1) % self.plan.look_every == 0:
            self._look()
        return {"share": share}

    def settle(self, rounds: int | None = None, probed: int = _PROBED) -> float:
        """After training: bring a method with a controller to its target. Returns the mean share of FLOPs then.

        A method whose number of tokens is the schedule's has none of its own: then it is the mean of the last steps.
        """
        self.module.eval()
        if not self.scorer.decides_count:
            last = self.history[-LAST:]
            return sum(record["share"] for record in last) / max(len(last), 1)
        share, reached, _ = self._probe(self.batches, probed)
        gain, above = _GAIN, reached > self.target
        for _ in range(self.plan.settle if rounds is None else rounds):
            near = abs(reached - self.target) <= self.plan.tolerance
            if near or not self.scorer.adjust(reached, self.target, gain):
                break
            share, reached, _ = self._probe(self.batches, probed)
            same = above == (reached > self.target)
            gain, above = min(_MOST, 1.5 * gain) if same else max(_LEAST, gain / 2), reached > self.target
        return share

    def _look(self) -> None:
        """Measure the running mean of the weights on what is held out, at the target, and keep it if it is the best."""
        network = self.scorer.network
        training = _copied(network)
        network.load_state_dict(self._mean)
        self.settle(_ROUNDS, _FEW)
        share, _, kl = self._probe(self.held_out, len(self.held_out))
        if not self.looks or kl < min(look["kl"] for look in self.looks):
            self._best = _copied(network)
        self.looks.append({"step": float(self.step), "kl": kl, "share": share})
        network.load_state_dict(training)
        self.module.train()

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

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        parts = {"mean": self._mean, "best": self._best}
        return {f"{part}.{name}": t for part, own in parts.items() for name, t in own.items()}, {"looks": self.looks}

    def load_state(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        self._mean, self._best = tensors_of("mean", tensors), tensors_of("best", tensors)
        self.looks = counters["looks"]

    @torch.no_grad()
    def _probe(self, batches: Sequence[Batch], count: int) -> tuple[float, float, float]:
        """Means over the first batches, as the method is deployed: share of FLOPs, what the target is of, and KL."""
        ranks, rank = self.accelerator.num_processes, self.accelerator.process_index
        sums = torch.zeros(4, dtype=torch.float64)
        for place in range(rank, min(count, len(batches)), ranks):
            kl, share, reached = (part.double().cpu() for part in self._run(batches[place]))
            sums += torch.stack([share.sum(), reached.sum(), kl.sum(), torch.tensor(float(len(kl))).double()])
        share, reached, kl, samples = self.mean(sums).tolist()
        return share / samples, reached / samples, kl / samples

    def _run(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """KL, the share of the prompt's FLOPs that the method's choices take, and what the target is of: [B] each.

        In training the KL has a gradient and the method chooses among all tokens; else it runs as it is deployed.
        """
        model, layers = self.objective.model, self.objective.cost.num_layers
        training = self.scorer.is_training
        schedule = Schedule.full(layers) if training else self.scorer.deployed_schedule(layers, self.target)

        def planner(layout: TokenLayout, _: Tensor) -> TokenPlan:
            return TokenPlan(schedule.counts(layout.num_visual))

        pruner = Pruner(self.scorer, planner, mode="mask" if training else "drop")
        with frozen(model), pruner(model):
            logits = answer_logits(model, batch.encoded)
            counts = pruner.token_counts(model)
        workload, price = self.objective.workload(batch.sizes), self.objective.cost
        share = price.price(counts, workload).double() / price.full(workload).double()  # of the tokens that it keeps
        reached = self.scorer.reached(share, counts / batch.num_visual[:, None].clamp_min(1))
        return self.objective.divergence(logits, batch), share, reached


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
