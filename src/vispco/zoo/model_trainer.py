"""The training loop: from a name and a seed to weights, through any number of interruptions."""

from __future__ import annotations

import json
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from vispco import files
from vispco.data.dataset import random_for
from vispco.data.tasks import TASKS
from vispco.errors import VispcoError
from vispco.zoo import checkpoint
from vispco.zoo.definitions import build_image_processor, build_model
from vispco.zoo.initialization import grow
from vispco.zoo.muon import Muon
from vispco.zoo.packed_batch import Batch, Packer, answer_loss, answers, right_by_task, visual_tokens
from vispco.zoo.recipe import Recipe, recipe
from vispco.zoo.shipped import load
from vispco.zoo.token_labels import DenseHeads
from vispco.zoo.training_scenes import examples, tower_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POOL = 4  # batches that are drawn together and sorted by size, so that little is padded
SMOOTH = 0.97
TOWERS = ("model.visual.", "model.vision_tower.", "model.multi_modal_projector.", "dense.")


@dataclass
class Progress:
    """What a run has to tell: smoothed loss and accuracy by task."""

    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    dense: float = 0.0
    level: float = 0.1  # how full the scenes are, 0 to 1
    accuracy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TASKS, 0.0))
    seen: dict[str, float] = field(default_factory=dict)

    def blend(self, name: str, value: float, momentum: float = SMOOTH) -> None:
        setattr(self, name, value if self.step == 0 else momentum * getattr(self, name) + (1 - momentum) * value)


class ModelTrainer:
    """One run. `step()` is a pure function of the weights, the seed and the number of the step."""

    def __init__(self, name: str, out: Path, *, seed: int = 0, plan: Recipe | None = None) -> None:
        self.name, self.out, self.seed = name, Path(out), seed
        self.plan = plan or recipe(name)
        self.model: Any = build_model(name, seed)
        if self.plan.growth is not None:
            grow(load(self.plan.growth.model)[0], self.model, self.plan.growth)
        self.model.train()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            embed, width = self.model.get_input_embeddings(), self.model.config.text_config.hidden_size
            self.heads = DenseHeads(embed, width, codes=self.plan.codes)
        self.pack = Packer(self.model, build_image_processor(name))
        heads = {f"dense.{name}": p for name, p in self.heads.named_parameters() if p.requires_grad}
        named = dict(self.model.named_parameters()) | heads
        self.parameters: dict[str, nn.Parameter] = named
        self.optimizer = Muon(named.items())
        self.progress = Progress()
        self._pool: tuple[int, list[Batch]] = (-1, [])
        self._mix = (self.weights(), self.progress.level)

    @property
    def file(self) -> Path:
        return self.out / "checkpoint.safetensors"

    @property
    def curve(self) -> Path:
        return self.out / "curve.jsonl"

    def weights(self) -> dict[str, float]:
        """Tasks that go badly are trained more."""
        part = self.plan.round_at(self.progress.step)
        more = {"counting": self.plan.counting if part is None else part.counting}
        return {name: 0.25 + (1 - self.progress.accuracy[name]) + more.get(name, 0.0) for name in TASKS}

    def level(self) -> float:
        """Fuller scenes as soon as the present ones are understood."""
        seeing = [self.progress.accuracy[name] for name in ("attribute", "position", "existence", "counting")]
        understood = sum(seeing) / len(seeing) > 0.8
        return min(1.0, self.progress.level + 0.01) if understood else self.progress.level

    def batch(self, step: int) -> Batch:
        first = step - step % POOL
        if self._pool[0] != first:
            plan = self.plan
            warm = first < plan.warmup
            pictures = plan.warmup_pictures if warm else plan.pictures
            rng = random_for("train", self.name, self.seed, first)
            if warm:
                given = tower_examples(rng, POOL * pictures, plan.least_level(first))
            else:
                weights, level = self._mix
                given = examples(rng, POOL * pictures, weights, level, plan.questions, plan.round_at(first))
            given.sort(key=lambda example: example.scene.width * example.scene.height)
            parts = [self.pack(given[i * pictures : (i + 1) * pictures]) for i in range(POOL)]
            rng.shuffle(parts)
            self._pool = (first, parts)
        return self._pool[1][step - first]

    def step(self) -> None:
        progress, plan = self.progress, self.plan
        started = time.perf_counter()
        if progress.step >= plan.warmup and progress.step % POOL == 0:
            progress.level = max(self.level(), plan.least_level(progress.step))
            self._mix = (self.weights(), progress.level)
        batch = self.batch(progress.step)
        through = plan.tower_taught_at(progress.step)
        frozen = progress.step >= plan.warmup and plan.tower == 0.0 and through is None
        with torch.set_grad_enabled(not frozen):
            features = visual_tokens(self.model, batch.pixels)
        loss = torch.zeros(())
        if not frozen:
            loss, seen = self.heads(features, batch.dense)
            progress.blend("dense", float(loss.detach()))
            for key, value in seen.items():
                progress.seen[key] = SMOOTH * progress.seen.get(key, 0.0) + (1 - SMOOTH) * value
        if progress.step >= plan.warmup:
            logits, targets, asked = answers(self.model, batch, features.detach() if through is None else features)
            told = answer_loss(logits, targets, plan.smoothing)
            loss = told + loss
            progress.blend("loss", float(told.detach()))
            for task, (right, total) in right_by_task(logits, targets, asked, batch.tasks).items():
                momentum = SMOOTH ** (total / 8)
                progress.accuracy[task] = momentum * progress.accuracy[task] + (1 - momentum) * right / total
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters.values(), plan.clip)
        slow = (
            dict.fromkeys(TOWERS, plan.tower if through is None else through) if progress.step >= plan.warmup else None
        )
        self.optimizer.step(plan.rate_at(progress.step), slow)
        progress.step += 1
        progress.seconds += time.perf_counter() - started

    def save(self, path: Path | None = None) -> None:
        tensors = {f"weight.{name}": p.detach() for name, p in self.parameters.items()}
        state = {
            "name": self.name,
            "seed": self.seed,
            "plan": self.plan.to_dict(),
            "progress": vars(self.progress),
            "mix": self._mix,
        }
        checkpoint.save(path or self.file, tensors | self.optimizer.state(), state)

    def resume(self) -> bool:
        if not self.file.exists():
            return False
        tensors, state = checkpoint.load(self.file)
        self._check(state)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"weight.{name}"])
        self.progress = Progress(**state["progress"])
        self._mix = tuple(state["mix"])
        self.optimizer.load(tensors, self.progress.step)
        return True

    def _check(self, state: dict[str, Any]) -> None:
        """Going on with other settings would give weights that no command gives."""
        step = state["progress"]["step"]
        told = [f"{key} {state[key]}" for key in ("name", "seed") if state[key] != getattr(self, key)]
        if not told and not self.plan.begins_like(Recipe.from_dict(state["plan"]), step):
            told = ["another recipe"]
        if told:
            raise VispcoError(
                f"{self.out} holds {step:,} steps of another run ({', '.join(told)}). "
                "Take another --out, or start again with --no-resume."
            )

    def note(self) -> dict[str, Any]:
        """One line of the curve."""
        progress = self.progress
        rounded = {name: round(value, 3) for name, value in progress.accuracy.items()}
        return {
            "step": progress.step,
            "seconds": round(progress.seconds),
            "loss": round(progress.loss, 4),
            "dense": round(progress.dense, 4),
            "level": round(progress.level, 2),
            "average": round(sum(rounded.values()) / len(rounded), 3),
            **rounded,
            "seen": {key: round(value, 2) for key, value in progress.seen.items()},
        }

    def _cut_curve(self) -> None:
        """A run that was killed goes on from its last checkpoint: what came behind it is noted again."""
        if self.curve.exists():
            lines = self.curve.read_text().splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= self.progress.step]
            files.write_text(self.curve, "".join(kept))

    def run(
        self, *, every: float = 90.0, note_every: int = 50, report: Callable[[Progress], None] | None = None
    ) -> None:
        """Train to the end of the plan, saving every so many seconds. Ctrl-C waits for the end of a step, and saves."""
        self.out.mkdir(parents=True, exist_ok=True)
        self._cut_curve()
        saved = time.monotonic()
        stable = round(self.plan.plain - self.plan.decay * (self.plan.plain - self.plan.warmup))
        with _held_back() as stopped:
            while self.progress.step < self.plan.steps:
                self.step()
                if report is not None:
                    report(self.progress)
                if self.progress.step % note_every == 0:
                    with self.curve.open("a") as file:
                        file.write(json.dumps(self.note()) + "\n")
                if self.progress.step == self.plan.warmup:
                    self.save(self.out / "tower.safetensors")
                if self.progress.step == stable:
                    self.save(self.out / "stable.safetensors")
                if stopped:
                    self.save()
                    raise KeyboardInterrupt
                if time.monotonic() - saved > every:
                    self.save()
                    saved = time.monotonic()
        self.save()


@contextmanager
def _held_back() -> Iterator[list[int]]:
    """Ctrl-C is noted in the list instead of breaking into a step; outside of the main thread nothing is changed."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
