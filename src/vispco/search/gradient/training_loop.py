"""The loop of every training by gradient through a frozen model: batches, ranks, checkpoints, progress.

Data parallel by accelerate: every rank holds the frozen model and a part of the batches; gradients are averaged over
ranks. All randomness follows from (seed, step), so a run that was killed continues from its last checkpoint to the same
numbers.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from vispco.core.errors import InvalidInputError
from vispco.core.progress_lines import ProgressBar
from vispco.core.runs import files
from vispco.core.runs.checkpoint_file import load_checkpoint, save_checkpoint
from vispco.search.batch import Batch
from vispco.search.gradient.static import DivergenceError
from vispco.search.gradient.training_settings import LoopSettings, batch_index
from vispco.search.objective import Objective, frozen

CHECKPOINT = "checkpoint.safetensors"


class TrainingLoop:
    """Trains a module over prepared batches; `run()` gives one record a step. Subclasses say what the loss is.

    batches: any sequence, also one that reads from disk; every rank indexes the same one.
    directory: where checkpoints and metrics.jsonl go; None for nowhere. It resumes from what it finds there.
    accelerator: made by the caller for mixed precision, trackers or many processes; default: a plain one.
    """

    part: ClassVar[str]
    """What the module's weights are called in a checkpoint."""

    def __init__(
        self,
        objective: Objective,
        module: nn.Module,
        batches: Sequence[Batch],
        plan: LoopSettings,
        *,
        directory: str | Path | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:
        self.objective, self.batches, self.loop = objective, batches, plan
        self.accelerator = accelerator or Accelerator()
        ranks = self.accelerator.num_processes
        if plan.batches % ranks:
            raise InvalidInputError(
                f"{plan.batches} batches per step cannot be shared by {ranks} processes. Give a multiple of {ranks}."
            )
        self.directory = None if directory is None else Path(directory)
        optimizer = torch.optim.AdamW(module.parameters(), plan.rate, weight_decay=plan.decay)
        self.module, self.optimizer = self.prepare(module, optimizer)
        self.step = 0
        self.history: list[dict[str, float]] = []
        self._resume()

    def run(self, *, show: bool = False) -> list[dict[str, float]]:
        """Train to the end of the plan; show: with a progress bar, on the main process."""
        show = show and bool(self.accelerator.is_main_process)
        with frozen(self.objective.model), ProgressBar(total=self.loop.steps, done=self.step, show=show) as bar:
            self.module.train()
            while self.step < self.loop.steps:
                record = self._one_step()
                self.step += 1
                self.history.append(record)
                self.accelerator.log(record, step=self.step)
                bar.advance(1, _values_text(record))
                if self.step % self.loop.save_every == 0 or self.step == self.loop.steps:
                    self._save()
        self.module.eval()
        return self.history

    @abstractmethod
    def loss(self, batch: Batch, place: int) -> tuple[Tensor, Tensor]:
        """Mean KL of a batch, and what else is minimised, both with a gradient. place: counts batches from the start."""

    def after_step(self) -> dict[str, float]:
        """Called after the optimizer's step; returns what the record of the step holds besides the KL."""
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """(tensors, JSON) that a checkpoint must hold besides weights and optimizer."""
        return {}, {}

    def load_state(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Restore what `state` returned."""

    def prepare(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
        """The module and its optimizer as accelerate runs them; gradients are averaged by the module's own backward."""
        found: tuple[Any, Any] = self.accelerator.prepare(module, optimizer)
        return found

    def alone(self) -> AbstractContextManager[Any]:
        """Context of a backward pass whose gradients are not averaged over ranks yet."""
        found: AbstractContextManager[Any] = self.accelerator.no_sync(self.module)
        return found

    def share_gradients(self) -> None:
        """Average gradients after the last backward pass of a step; nothing to do where `prepare` wrapped the module."""

    def mean(self, values: Tensor) -> Tensor:
        """Over ranks, on the host."""
        found: Tensor = self.accelerator.reduce(values.clone().to(self.accelerator.device), "mean")
        return found.cpu()

    def _one_step(self) -> dict[str, float]:
        plan, ranks, rank = self.loop, self.accelerator.num_processes, self.accelerator.process_index
        own = plan.batches // ranks
        self.optimizer.zero_grad()
        sums = torch.zeros(2, dtype=torch.float64)
        for number in range(own):
            place = self.step * plan.batches + rank * own + number
            batch = self.batches[batch_index(place, len(self.batches), plan.seed)]
            torch.manual_seed(plan.seed * 1_000_003 + place)
            with self.accelerator.autocast():
                kl, penalty = self.loss(batch, place)
            loss = kl + penalty
            sums += torch.stack([kl.detach(), (~loss.detach().isfinite()).to(kl)]).double().cpu() / own
            with self.alone() if number < own - 1 else nullcontext():  # ranks talk once a step
                self.accelerator.backward(loss / own)
        self.share_gradients()
        sums = self.mean(sums)
        norm = self.accelerator.clip_grad_norm_(self.module.parameters(), plan.clip)
        if sums[1] > 0 or not bool(torch.as_tensor(norm).isfinite()):
            kept = "There is no checkpoint yet."
            if self.directory is not None and (self.directory / CHECKPOINT).is_file():
                kept = f"The last good checkpoint is {self.directory / CHECKPOINT}."
            raise DivergenceError(
                f"Training stopped at step {self.step}: the loss is not finite (KL {float(sums[0]):g}). {kept} Lower the rate "
                f"({plan.rate:g})."
            )
        self.optimizer.step()
        return {"step": float(self.step), "kl": float(sums[0]), **self.after_step()}

    def _save(self) -> None:
        if self.directory is None:
            return
        more, extra = self.state()
        if not self.accelerator.is_main_process:
            return
        weights = self.accelerator.unwrap_model(self.module).state_dict()
        tensors = {f"{self.part}.{name}": tensor for name, tensor in weights.items()}
        moments = self.optimizer.state_dict()["state"]
        tensors |= {f"optimizer.{i}.{key}": torch.as_tensor(v) for i, own in moments.items() for key, v in own.items()}
        counters = {"step": self.step, "plan": asdict(self.loop), "history": self.history, **extra}
        bill = {"spent": asdict(self.objective.spent), "taught": sorted(self.objective.taught)}
        save_checkpoint(self.directory / CHECKPOINT, tensors | more, counters | bill)
        lines = "".join(json.dumps(record) + "\n" for record in self.history)
        files.write_text(self.directory / "metrics.jsonl", lines)

    def _resume(self) -> None:
        if self.directory is None or not (self.directory / CHECKPOINT).is_file():
            return
        tensors, counters = load_checkpoint(self.directory / CHECKPOINT)
        if {**counters["plan"], "steps": 0} != {**json.loads(json.dumps(asdict(self.loop))), "steps": 0}:
            raise InvalidInputError(
                f"{self.directory} holds a run with another plan ({counters['plan']}). Give that plan, or another folder."
            )
        self.accelerator.unwrap_model(self.module).load_state_dict(tensors_of(self.part, tensors))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors_of("optimizer", tensors).items():
            index, key = name.split(".", 1)
            moments.setdefault(int(index), {})[key] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        self.step, self.history = counters["step"], counters["history"]
        self.load_state(tensors, counters)
        for name, value in counters["spent"].items():
            setattr(self.objective.spent, name, value)
        self.objective.taught = dict.fromkeys(counters.get("taught", ()), 0.0)  # on the bill that was kept


def tensors_of(part: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those of one part of a checkpoint, by their own names."""
    return {key.removeprefix(f"{part}."): t for key, t in tensors.items() if key.startswith(f"{part}.")}


def _values_text(record: dict[str, float]) -> str:
    """The numbers of a step as a bar shows them; those that a solver does not have are left out."""
    names = {"kl": "KL", "share": "FLOPs share", "violation": "violation", "w": "w", "lambda": "λ"}
    return "  ".join(f"{name} {record[key]:.4g}" for key, name in names.items() if key in record)
