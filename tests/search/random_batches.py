"""Batches of small random models, with answers, as a search takes them."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import torch
from accelerate import Accelerator
from transformers import AutoModelForImageTextToText

import tiny
from vispco import kernels
from vispco.evaluation.encoded import Encoded
from vispco.models.processor import load_processor
from vispco.pruner.predictor import Predictor
from vispco.search.batch import run_teacher
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.gradient.trainer import PredictorTrainer
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.objective import Objective
from vispco_zoo.definitions import build_model
from vispco_zoo.export import save_model


def encoded(name, samples, answer=2, seed=0):
    """Samples of parts -> a left-padded batch whose last `answer` tokens are its answer."""
    full = [(*sample, tiny.words(answer, seed + 50 + b)) for b, sample in enumerate(samples)]
    inputs = tiny.inputs(name, full, seed=seed)
    labels = torch.full_like(inputs["input_ids"], -100)
    labels[:, -answer:] = inputs["input_ids"][:, -answer:]
    pictures = [[p for p in s if p.image is not None] for s in full]
    visual = tuple(sum(tiny.tokens_of(name, p) for p in ps) for ps in pictures)
    real = inputs["attention_mask"].sum(-1).tolist()
    text = tuple(r - v - answer for r, v in zip(real, visual, strict=True))
    ids = tuple(f"{seed}/{b}" for b in range(len(full)))
    seen = inputs["input_ids"] == tiny.IMAGE
    behind = ~seen & (seen.cumsum(-1) > 0) & inputs["attention_mask"].bool()
    asked = tuple(max(0, int(number)) for number in behind.sum(-1) - answer * seen.any(-1))
    return Encoded(ids, inputs, labels, visual, text, (answer,) * len(full), asked)


def sample(seed, size=(4, 4), words=5):
    return (tiny.words(2, 1), tiny.picture(*size), tiny.words(words, seed))


def make_batches(name="qwen2_5_vl", count=2, size=3):
    model = tiny.build(name)
    sizes = [(4, 4), (4, 5), (5, 6)] if name.startswith("qwen") else [(4, 4)]
    made = []
    for number in range(count):
        rows = [sample(10 * number + b, sizes[b % len(sizes)], 4 + b) for b in range(size)]
        made.append(run_teacher(model, encoded(name, rows, seed=number)))
    return made


def make_trainer(folder=None, solver="projection", steps=6, kernel="p-sigmoid", **plan):
    """A training of a small predictor on a small model; the same every time."""
    model = tiny.build("qwen2_5_vl")
    objective = Objective(model, "fastv", relaxation=GaussianMask(2.0, 0.3))
    torch.manual_seed(0)
    predictor = Predictor.for_model(model, kernels.get(kernel), objective.scorer, width=16, queries=2)
    options = {"batches": 2, "inner": 2, "rate": 1e-2, "save_every": 2, "bins": 2, **plan}
    return PredictorTrainer(
        objective,
        predictor,
        make_batches(count=4),
        solver=solver,
        plan=TrainingSettings(steps=steps, **options),
        directory=folder,
        accelerator=Accelerator(cpu=True),
    )


@cache
def zoo_model():
    """An untrained model of the zoo and its processor: real prompts and pictures of several sizes."""
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp(prefix="vispco-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    save_model("tiny-qwen", build_model("tiny-qwen"), folder / "model")
    model = AutoModelForImageTextToText.from_pretrained(folder / "model", dtype=torch.float32).eval()
    return model, load_processor(folder / "model")
