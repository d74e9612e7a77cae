"""The paper's training of a predictor: one gradient through the relaxed model, for all samples and all budgets at once.

Data parallel by accelerate: every rank holds the frozen model and a part of the batches; gradients are averaged over
ranks, and so is the violation, before any multiplier moves. All randomness follows from (seed, step), so a run that was
killed goes on from its last checkpoint to the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from vispco import files
from vispco.errors import InvalidInputError
from vispco.planning.predictor import Predictor
from vispco.search.batch import Batch
from vispco.search.gradient import checkpoint
from vispco.search.gradient.lagrangian import AugmentedLagrangian, LagrangianSettings
from vispco.search.gradient.projection import Pricing, project
from vispco.search.gradient.static import DescentSettings, DivergenceError, Solver, annealed_gamma
from vispco.search.gradient.training_settings import TrainingSettings, batch_index, draw_budgets
from vispco.search.objective import Objective, frozen
from vispco.search.progress import ProgressBar


class PredictorTrainer:
    """Trains a predictor over prepared batches; `run()` gives the history of KL and violation.

    batches: any sequence, also one that reads from disk; every rank indexes the same one.
    directory: where checkpoints and metrics.jsonl go; None for nowhere. It resumes from what it finds there.
    accelerator: made by the caller for mixed precision, trackers or many processes; default: a plain one.
    """

    def __init__(
        self,
        objective: Objective,
        predictor: Predictor,
        batches: Sequence[Batch],
        *,
        solver: Solver = "projection",
        plan: TrainingSettings | None = None,
        settings: LagrangianSettings | None = None,
        directory: str | Path | None = None,
        accelerator: Accelerator | None = None,
        show: bool = False,
    ) -> None:
        self.plan, self.solver, self.objective, self.batches = plan or TrainingSettings(), solver, objective, batches
        self.accelerator = accelerator or Accelerator()
        ranks = self.accelerator.num_processes
        if self.plan.batches % ranks:
            raise InvalidInputError(
                f"{self.plan.batches} batches per step cannot be shared by {ranks} processes. Give a multiple of {ranks}."
            )
        self.kernel, self.show = predictor.kernel, show
        self.multiplier = AugmentedLagrangian(settings or LagrangianSettings(), bins=self.plan.bins)
        self.statistics = torch.zeros(3, self.plan.bins, dtype=torch.float64)
        self.directory = None if directory is None else Path(directory)
        optimizer = torch.optim.AdamW(predictor.parameters(), self.plan.rate, weight_decay=self.plan.decay)
        self.predictor, self.optimizer = self.accelerator.prepare(predictor, optimizer)
        self.step = 0
        self.history: list[dict[str, float]] = []
        self._resume()

    def run(self) -> list[dict[str, float]]:
        """Train to the end of the plan. One record a step: KL, violation, w and lambda (their means over bins)."""
        with frozen(self.objective.model), ProgressBar(self.plan.steps, done=self.step, show=self._speaks) as bar:
            self.predictor.train()
            while self.step < self.plan.steps:
                record = self._one_step()
                self.step += 1
                self.history.append(record)
                self.accelerator.log(record, step=self.step)
                bar.step(record)
                if self.step % self.plan.save_every == 0 or self.step == self.plan.steps:
                    self._save()
        self.predictor.eval()
        return self.history

    def _one_step(self) -> dict[str, float]:
        plan, ranks, rank = self.plan, self.accelerator.num_processes, self.accelerator.process_index
        own = plan.batches // ranks
        self.optimizer.zero_grad()
        sums = torch.zeros(2, dtype=torch.float64)
        for number in range(own):
            place = self.step * plan.batches + rank * own + number
            batch = self.batches[batch_index(place, len(self.batches), plan.seed)]
            workload = self.objective.workload(batch.num_text, batch.num_visual).pinned(self.kernel.earliest_layer)
            floor = self.objective.cost.lowest_fraction(workload)
            torch.manual_seed(plan.seed * 1_000_003 + place)
            with self.accelerator.autocast():
                kl, penalty = self._loss(batch, draw_budgets(place, floor, plan.seed))
            loss = kl + penalty
            sums += torch.stack([kl.detach(), (~loss.detach().isfinite()).to(kl)]).double().cpu() / own
            alone = self.accelerator.no_sync(self.predictor) if number < own - 1 else nullcontext()
            with alone:  # ranks talk once a step
                self.accelerator.backward(loss / own)
        sums = self._mean(sums)
        norm = self.accelerator.clip_grad_norm_(self.predictor.parameters(), plan.clip)
        if sums[1] > 0 or not bool(torch.as_tensor(norm).isfinite()):
            raise DivergenceError(self._what_to_do(float(sums[0])))
        self.optimizer.step()
        if (self.step + 1) % plan.inner == 0:
            self.multiplier.update(self._mean(self.statistics))  # sums over ranks and means differ by a factor only
            self.statistics.zero_()
        seen = self.multiplier.violation.isfinite()
        record = {"step": float(self.step), "kl": float(sums[0])}
        if self.solver == "lagrangian" and bool(seen.any()):
            record |= {
                "violation": float(self.multiplier.violation[seen].mean()),
                "w": float(self.multiplier.w[seen].mean()),
                "lambda": float(self.multiplier.lam[seen].mean()),
            }
        return record

    def _loss(self, batch: Batch, budget: Tensor) -> tuple[Tensor, Tensor]:
        """Mean KL and mean penalty of a batch at budgets [B]."""
        objective, cost = self.objective, self.objective.cost
        predicted = self.predictor(batch.observation, budget)
        pricing = Pricing(objective.workload(batch.num_text, batch.num_visual), cost)
        gamma = annealed_gamma(self.kernel, DescentSettings(gamma=self.plan.gamma, outer=self.plan.steps), self.step)
        params = predicted.params.double().cpu()
        unused = 0.0 * predicted.logits.sum()  # so that every parameter has a gradient on every rank
        if self.solver == "projection":
            retention = project(self.kernel, params, budget, pricing, gamma=gamma)
            kl = objective.relaxed_kl(batch, retention).mean() + unused
            return kl, torch.zeros_like(kl)
        retention = self.kernel(params, cost.num_layers, gamma=gamma)
        h = budget - pricing.fraction(retention)
        bins = self.multiplier.bin_of(budget)
        if self.step % self.plan.inner >= self.plan.inner // 2:  # the end of an inner solve
            self.statistics += self.multiplier.statistics(h, bins)
        kl = objective.relaxed_kl(batch, retention).mean() + unused
        return kl, self.multiplier.penalty(h, bins).mean().to(kl.device)

    def _mean(self, values: Tensor) -> Tensor:
        mean: Tensor = self.accelerator.reduce(values.clone().to(self.accelerator.device), "mean")
        return mean.cpu()

    @property
    def _speaks(self) -> bool:
        return self.show and bool(self.accelerator.is_main_process)

    def _what_to_do(self, kl: float) -> str:
        kept = "There is no checkpoint yet."
        if self.directory is not None and (self.directory / checkpoint.NAME).is_file():
            kept = f"The last good checkpoint is {self.directory / checkpoint.NAME}."
        return f"Training stopped at step {self.step}: the loss is not finite (KL {kl:g}). {kept} Lower the rate ({self.plan.rate:g})."

    def _save(self) -> None:
        if self.directory is None:
            return
        statistics = self._mean(self.statistics)
        if not self.accelerator.is_main_process:
            return
        weights = self.accelerator.unwrap_model(self.predictor).state_dict()
        tensors = {f"predictor.{name}": tensor for name, tensor in weights.items()}
        tensors |= {f"optimizer.{n}": t for n, t in checkpoint.optimizer_tensors(self.optimizer).items()}
        tensors |= {f"multiplier.{n}": t for n, t in self.multiplier.state_dict().items()}
        counters = {"step": self.step, "plan": asdict(self.plan), "solver": self.solver, "history": self.history}
        checkpoint.save(
            self.directory,
            tensors | {"statistics": statistics},
            counters | {"spent": asdict(self.objective.spent)},
        )
        lines = "".join(json.dumps(record) + "\n" for record in self.history)
        files.write_text(self.directory / "metrics.jsonl", lines)

    def _resume(self) -> None:
        found = None if self.directory is None else checkpoint.load(self.directory)
        if found is None:
            return
        tensors, counters = found
        if {**counters["plan"], "steps": 0} != {**json.loads(json.dumps(asdict(self.plan))), "steps": 0}:
            raise InvalidInputError(
                f"{self.directory} holds a run with another plan ({counters['plan']}). Give that plan, or another folder."
            )

        def part(name: str) -> dict[str, Tensor]:
            return {key.removeprefix(f"{name}."): t for key, t in tensors.items() if key.startswith(f"{name}.")}

        self.accelerator.unwrap_model(self.predictor).load_state_dict(part("predictor"))
        checkpoint.load_optimizer(self.optimizer, part("optimizer"))
        self.multiplier.load_state_dict(part("multiplier"))
        self.statistics, self.step, self.history = tensors["statistics"], counters["step"], counters["history"]
        for name, value in counters["spent"].items():
            setattr(self.objective.spent, name, value)
