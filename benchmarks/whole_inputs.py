"""A setting of pictures for each input: does one that is chosen before the tower runs lose less than the best one for all?

The best settings of a budget are those of `compare_settings`. Which of them loses least on an input is estimated from its text,
the size of its picture and a thumbnail, by a kernel regression on the other inputs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

MODELS = ("tiny-qwen", "tiny-qwen3")
BUDGETS = ("0.3p", "0.4p")
ITEMS = 16  # calibration items of each task
SHAPES = 3  # of each chain
SETTINGS = 3  # that an input may choose from
BANDWIDTHS = (0.02, 0.05, 0.12, 0.25, 0.6, 1.2)
THUMBNAIL = 8  # pixels of its side


def measure(setup: Any, limit: int) -> dict[str, Any]:
    """For each budget what a choice by input gains, and what the best choice in hindsight would; gain: the mean."""
    from vispco.cost import Budget
    from vispco.data import dataset
    from vispco.search.modes import SearchRun
    from vispco.search.search_spec import Effort, SearchSpec
    from vispco.search.whole_search import TowerSpace, compare_settings, shape_losses

    model, processor = setup.loaded
    samples = list(dataset("calibration", "all", limit=limit))
    spec = SearchSpec.choose(budgets=BUDGETS, effort=Effort(batch_size=16))
    run = SearchRun.prepare(model, processor, samples, spec, say=lambda text: print(setup.name, text, flush=True))
    space = TowerSpace(pixels=setup.pixels, samples=(32, len(samples)), shapes=SHAPES)
    ranked = compare_settings(run, processor, space, list(map(Budget.of, BUDGETS)))
    keys, found = features(run.batches, samples), {}
    for budget, candidates in ranked.items():
        measured = [(each, shape_losses(each, budget, len(samples), 1)) for each in candidates[:SETTINGS]]
        within = [(each.setting.name, kl[kl.mean(1).argmin()]) for each, kl in measured if kl is not None]
        found[str(budget)] = {
            "settings": [name for name, _ in within],
            **chosen(keys, torch.stack([kl for _, kl in within])),
        }
    gains, noise = ([each[key] for each in found.values()] for key in ("gain", "noise"))
    return {
        "gain": sum(gains) / len(gains),
        "noise": math.hypot(*noise) / len(noise),
        "items": len(samples),
        "budgets": found,
    }


def features(batches: Any, samples: Any) -> Tensor:
    """What is known of each input before its tower runs, in the order of the batches: [M, F]."""
    from torch.nn.functional import normalize

    from vispco.pruner.observation import PICTURE, SIZE, feature_scales, join_observations, raw_features

    seen = list(batches)
    raw = raw_features(join_observations([batch.observation for batch in seen]))
    pictures = {sample.id: sample.images[0].convert("L").resize((THUMBNAIL, THUMBNAIL)) for sample in samples}
    order = [name for batch in seen for name in batch.encoded.ids]
    thumbnails = torch.stack([torch.tensor([*pictures[name].tobytes()], dtype=torch.float32) for name in order])
    words, size = raw[:, : (raw.shape[1] - 1) // 3], raw[:, -1:]
    parts = [(each - feature_scales(each)[0]) / feature_scales(each)[1] for each in (words, thumbnails, size)]
    return torch.cat([normalize(parts[0], dim=-1), PICTURE * normalize(parts[1], dim=-1), SIZE * parts[2]], dim=-1)


def chosen(keys: Tensor, loss: Tensor) -> dict[str, Any]:
    """The best setting for all, a choice by input, each input left out, and the best one in hindsight. loss: [S, M].

    gain: of the choice, as a share of the loss of the best one for all; noise: its standard error.
    """
    from vispco.pruner.kernel_regression import kernel_weights

    best, rows = loss[loss.mean(1).argmin()], loss.T
    fits = [kernel_weights(keys, keys, bandwidth, leave_one_out=True) @ rows for bandwidth in BANDWIDTHS]
    fit = min(fits, key=lambda each: float((each - rows).square().mean()))
    own = rows.gather(1, fit.argmin(1, keepdim=True))[:, 0]
    gains = (best - own) / best.mean()
    return {
        "single": float(best.mean()),
        "by_input": float(own.mean()),
        "oracle": float(loss.min(0).values.mean()),
        "gain": float(gains.mean()),
        "noise": float(gains.std() / math.sqrt(len(gains))),
    }
