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

from vispco.core.errors import VispcoError
from vispco.core.runs import files
from vispco.core.runs.checkpoint_file import load_checkpoint, save_checkpoint
from vispco.data.dataset import TASKS, random_for
from vispco.models import smol
from vispco.models.shipped import CARD, load
from vispco_zoo.definitions import build_image_processor, build_model, definition
from vispco_zoo.initialization import grow, scale_branches
from vispco_zoo.layer_removal import removal_penalty
from vispco_zoo.muon import Muon
from vispco_zoo.packed_batch import ATTENTION, PackedBatch, Packer, answer_loss, answers, right_by_task, visual_tokens
from vispco_zoo.recipe import Recipe, recipe
from vispco_zoo.smol import read_parts
from vispco_zoo.token_labels import TokenLabelHeads
from vispco_zoo.tokenizer import markup, token_ids
from vispco_zoo.training_scenes import examples, resample, reword_questions, tower_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SMOOTH = 0.97  # share of the old value in a moving average
_REMOVAL_WEIGHT = 0.05  # of the term that makes every layer matter
_DEEPSTACK_WEIGHT = 0.3  # of the labels of each DeepStack level
_STRIDE = 13  # from the layer that a step leaves out to that of the next step
_POOL = 4  # batches that are drawn together and sorted by size, so that little is padded
TOWERS = ("model.visual.", "model.vision_", "model.multi_modal_projector.", "model.connector.", "dense.")


@dataclass
class TrainingProgress:
    """Counters of a run, and its smoothed losses and accuracies."""

    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0  # of the answers
    dense: float = 0.0  # loss of the visual tokens' labels
    level: float = 0.1  # density of the scenes, 0 to 1
    accuracy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TASKS, 0.0))
    seen: dict[str, float] = field(default_factory=dict)  # accuracy by field of the visual tokens' labels

    def blend(self, name: str, value: float) -> None:
        """Update a moving average; the first step sets it."""
        setattr(self, name, value if self.step == 0 else _SMOOTH * getattr(self, name) + (1 - _SMOOTH) * value)

    def describe(self) -> str:
        """Loss and accuracy by task in one line."""
        tasks = " ".join(f"{task[:5]} {100 * score:.0f}" for task, score in self.accuracy.items())
        return f"loss {self.loss:.2f} dense {self.dense:.2f} | {tasks}"

    def curve_entry(self) -> dict[str, Any]:
        """One line of the curve."""
        rounded = {name: round(value, 3) for name, value in self.accuracy.items()}
        return {
            "step": self.step,
            "seconds": round(self.seconds),
            "loss": round(self.loss, 4),
            "dense": round(self.dense, 4),
            "level": round(self.level, 2),
            "average": round(sum(rounded.values()) / len(rounded), 3),
            **rounded,
            "seen": {key: round(value, 2) for key, value in self.seen.items()},
        }


class ModelTrainer:
    """One training run. A step depends on nothing but the weights, the seed and the number of the step."""

    def __init__(self, name: str, out: Path, *, seed: int = 0, plan: Recipe | None = None) -> None:
        self.name, self.out, self.seed = name, Path(out), seed
        self.plan = plan or recipe(name)
        self.model: Any = build_model(name, seed)
        if self.plan.growth is not None:
            grow(load(self.plan.growth.model)[0], self.model, self.plan.growth)
        self.model.train()
        if self.plan.bfloat16:
            self.model.set_attn_implementation(ATTENTION)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            embed, width = self.model.get_input_embeddings(), self.model.config.text_config.hidden_size
            ids = token_ids(markup(self.model.config.model_type))
            self.heads = TokenLabelHeads(
                embed, width, codes=self.plan.codes, ids=ids, named_codes=self.plan.named_codes
            )
        self.pack = Packer(self.model, build_image_processor(name))
        heads = {f"dense.{name}": p for name, p in self.heads.named_parameters() if p.requires_grad}
        named = {name: p for name, p in self.model.named_parameters() if p.requires_grad} | heads
        self.parameters: dict[str, nn.Parameter] = named
        self.optimizer = Muon(named.items(), dtype=torch.bfloat16 if self.plan.bfloat16 else torch.float32)
        self.progress = TrainingProgress()
        self._pool: tuple[int, list[PackedBatch]] = (-1, [])
        self._mix = (self.weights(), self.progress.level)

    @property
    def file(self) -> Path:
        return self.out / "checkpoint.safetensors"

    @property
    def curve(self) -> Path:
        return self.out / "curve.jsonl"

    def weights(self) -> dict[str, float]:
        """Weights of the tasks: those with low accuracy are trained more."""
        part = self.plan.round_at(self.progress.step)
        more = {"counting": self.plan.counting if part is None else part.counting}
        return {name: 0.25 + (1 - self.progress.accuracy[name]) + more.get(name, 0.0) for name in TASKS}

    def level(self) -> float:
        """How full the scenes are: fuller as soon as the present ones are understood."""
        seeing = [self.progress.accuracy[name] for name in ("attribute", "position", "existence", "counting")]
        understood = sum(seeing) / len(seeing) > 0.8
        return min(1.0, self.progress.level + 0.01) if understood else self.progress.level

    def batch(self, step: int) -> PackedBatch:
        first = step - step % _POOL
        if self._pool[0] != first:
            plan = self.plan
            warm = first < plan.warmup
            pictures = plan.warmup_pictures if warm else plan.pictures
            rng = random_for("train", self.name, self.seed, first)
            if warm:
                given = tower_examples(rng, _POOL * pictures, plan.least_level(first))
            else:
                weights, level = self._mix
                given = examples(rng, _POOL * pictures, weights, level, plan.questions, plan.round_at(first))
            if plan.reworded:
                given = [reword_questions(rng, example, plan.reworded) for example in given]
            if plan.resampled:
                given = [resample(rng, example, plan.resampled, plan.scales) for example in given]
            given.sort(key=lambda example: example.image.width * example.image.height)
            parts = [self.pack(given[i * pictures : (i + 1) * pictures]) for i in range(_POOL)]
            rng.shuffle(parts)
            self._pool = (first, parts)
        return self._pool[1][step - first]

    def step(self) -> None:
        progress, plan = self.progress, self.plan
        started = time.perf_counter()
        if progress.step >= plan.warmup and progress.step % _POOL == 0:
            progress.level = max(self.level(), plan.least_level(progress.step))
            self._mix = (self.weights(), progress.level)
        part = plan.round_at(progress.step)
        if part is not None and (progress.step - plan.plain) % plan.polish == 0:  # a round begins
            scale_branches(self.model, part.scaled_layers, part.branch_scale)
        batch = self.batch(progress.step)
        if progress.step >= plan.warmup and plan.connector:
            self.model.model.vision_model.requires_grad_(requires_grad=False)
        tower_rate = plan.answers_tower_rate(progress.step)
        frozen = progress.step >= plan.warmup and plan.tower == 0.0 and tower_rate is None
        bfloat16 = torch.autocast("cpu", torch.bfloat16, enabled=plan.bfloat16)
        with torch.set_grad_enabled(not frozen), bfloat16:
            features = tuple(level.float() for level in visual_tokens(self.model, batch.pixels))
        loss = torch.zeros(())
        if not frozen:
            loss, seen = self.heads(features[0], batch.dense)
            for level in features[1:]:  # of DeepStack: the blocks below learn the labels, too
                loss = loss + _DEEPSTACK_WEIGHT * self.heads(level, batch.dense)[0]
            progress.blend("dense", float(loss.detach()))
            for key, value in seen.items():
                progress.seen[key] = _SMOOTH * progress.seen.get(key, 0.0) + (1 - _SMOOTH) * value
        if progress.step >= plan.warmup:
            seen_by_answers = tuple(level.detach() for level in features) if tower_rate is None else features
            with bfloat16:
                logits, targets, asked = answers(self.model, batch, seen_by_answers)
            logits = logits.float()
            of_answers = answer_loss(logits, targets, plan.smoothing_at(progress.step))
            loss = of_answers + loss
            if part is not None and part.removal:
                layer = 1 + progress.step * _STRIDE % (self.model.config.text_config.num_hidden_layers - 1)
                missing = removal_penalty(self.model, batch, seen_by_answers, logits, layer, part.removal)
                loss = loss + _REMOVAL_WEIGHT * missing
            progress.blend("loss", float(of_answers.detach()))
            for task, (right, total) in right_by_task(logits, targets, asked, batch.tasks).items():
                momentum = _SMOOTH ** (total / 8)
                progress.accuracy[task] = momentum * progress.accuracy[task] + (1 - momentum) * right / total
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.parameters.values(), plan.clip)
        slow = dict.fromkeys(TOWERS, plan.tower if tower_rate is None else tower_rate)
        self.optimizer.step(plan.rate_at(progress.step), slow if progress.step >= plan.warmup else None)
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
        save_checkpoint(path or self.file, tensors | self.optimizer.state(), state)

    def resume(self) -> bool:
        if not self.file.exists():
            return False
        tensors, state = load_checkpoint(self.file)
        self._check(state)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"weight.{name}"])
        self.progress = TrainingProgress(**state["progress"])
        self._mix = tuple(state["mix"])
        self.optimizer.load(tensors, self.progress.step)
        return True

    def start_from_shipped(self) -> bool:
        """Put the shipped parts of a pre-trained model into this one, at the step that they were trained to.

        The optimizer's momentum is not shipped: it starts anew.
        """
        if not definition(self.name).pretrained or not (smol.PARTS / CARD).is_file():
            return False
        card = json.loads((smol.PARTS / CARD).read_text())
        self._check({"name": card["name"], "seed": card["seed"], "plan": card["recipe"], "progress": card["progress"]})
        read_parts(self.model, smol.PARTS)
        self.progress = TrainingProgress(**card["progress"])
        self._mix = (self.weights(), self.progress.level)
        return True

    def _check(self, state: dict[str, Any]) -> None:
        """Refuse a checkpoint of other settings: no single command would give the resulting weights."""
        step = state["progress"]["step"]
        different = [f"{key} {state[key]}" for key in ("name", "seed") if state[key] != getattr(self, key)]
        if not different and not self.plan.begins_like(Recipe.from_dict(state["plan"]), step):
            different = ["another recipe"]
        if different:
            raise VispcoError(
                f"{self.out} holds {step:,} steps of another run ({', '.join(different)}). "
                "Take another --out, or start again with --no-resume."
            )

    def run(
        self, *, every: float = 90.0, note_every: int = 50, report: Callable[[TrainingProgress], None] | None = None
    ) -> None:
        """Train to the end of the recipe and save every `every` seconds. Ctrl-C saves at the end of the current step."""
        self.out.mkdir(parents=True, exist_ok=True)
        if self.curve.exists():  # what was recorded after the last checkpoint is recorded again
            lines = self.curve.read_text().splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= self.progress.step]
            files.write_text(self.curve, "".join(kept))
        saved = time.monotonic()
        stable = round(self.plan.plain - self.plan.decay * (self.plan.plain - self.plan.warmup))
        with _interrupt_deferred() as stopped:
            while self.progress.step < self.plan.steps:
                self.step()
                if report is not None:
                    report(self.progress)
                if self.progress.step % note_every == 0:
                    with self.curve.open("a") as file:
                        file.write(json.dumps(self.progress.curve_entry()) + "\n")
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
def _interrupt_deferred() -> Iterator[list[int]]:
    """Ctrl-C fills the list instead of interrupting a step. Outside of the main thread nothing is changed."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
