"""`describe`: what a config says about a model and about the work of pruning it, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from vispco import cost as costs
from vispco.cost import Cost, Dimensions, KvBytes, Workload
from vispco.cost.solve import largest_whole
from vispco.errors import InvalidInputError
from vispco.estimates.model_size import DTYPES, count_parameters, visual_tokens
from vispco.estimates.work import (
    Machine,
    PromptSize,
    estimate_evaluation,
    estimate_gradient_search,
    estimate_grid,
    estimate_static_search,
)
from vispco.families import FAMILIES
from vispco.scorers import SCORERS

BUDGETS = (1.0, 0.5, 0.1)
CALIBRATION = 256  # samples of a static search, as the command takes them from a file
EARLY = 2  # where tokens leave in the example of a budget: FastV's layer


@dataclass(frozen=True, kw_only=True)
class DescribeSettings:
    """A sample, a run and a GPU. image: (width, height); visual: tokens, in place of an image."""

    image: tuple[int, int] = (640, 480)
    visual: int | None = None
    text: int = 64
    answer: int = 8
    samples: int = 30_000
    items: int = 8_000
    batch: int = 16
    dtype: str | None = None
    machine: Machine = field(default_factory=Machine)


def describe(
    config: Any, name: str, at: DescribeSettings, preprocessor: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Layers, tokens, FLOPs by both formulas, memory, and the cost of a search and of the grid."""
    if not hasattr(config, "vision_config"):
        raise InvalidInputError(
            f"{name} is a config of type {config.model_type!r} without a vision tower. vispco prunes visual tokens of "
            "image-text-to-text models."
        )
    if at.dtype is not None and at.dtype not in DTYPES:
        raise InvalidInputError(f"dtype={at.dtype!r} was given. Give {', '.join(DTYPES)}.")
    visual = visual_tokens(config, *at.image, preprocessor) if at.visual is None else at.visual
    size = Dimensions.from_config(config, dtype=None if at.dtype is None else getattr(torch, at.dtype))
    models = {key: costs.get(key, size) for key in ("exact", "paper")}
    sample, counted = Workload(at.text, visual), count_parameters(config)
    prompt = PromptSize(
        cost=models["exact"],
        text=at.text,
        visual=visual,
        answer=at.answer,
        weights=counted.language * size.dtype_bytes,
        language=counted.language,
    )
    configurations, swept = estimate_grid(prompt, at.machine, at.items, batch=at.batch)
    return {
        "model": name,
        "model_type": config.model_type,
        "family": FAMILIES[config.model_type].__name__ if config.model_type in FAMILIES else "generic",
        "layers": size.num_layers,
        "hidden": size.hidden,
        "heads": size.heads,
        "kv_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "ffn": size.ffn,
        "sliding_layers": sum(window is not None for window in size.windows),
        "image": None if at.visual is not None else list(at.image),
        "visual_tokens": visual,
        "text_tokens": at.text,
        "flops": {
            key: {f"{budget:.0%}": int(model.full(sample)) * budget for budget in BUDGETS}
            for key, model in models.items()
        },
        "not_counted": size.not_counted,
        "floor": {key: float(model.lowest_fraction(sample)) for key, model in models.items()},
        "parameters": counted.parameters,
        "vision_parameters": counted.vision,
        "weights_bytes": {dtype: counted.weights(dtype) for dtype in DTYPES},
        "dtype_bytes": size.dtype_bytes,
        "kv_bytes": _kv_bytes(models["exact"], sample, 1.0),
        "kv_bytes_at": {f"{b:.0%}": _kv_bytes(models["exact"], sample, b) for b in BUDGETS},
        "estimates": {
            "machine": asdict(at.machine),
            "answer_tokens": at.answer,
            "samples": at.samples,
            "items": at.items,
            "batch": at.batch,
            "evaluation": estimate_evaluation(prompt, at.machine, at.items, batch=at.batch).to_dict(),
            "gradient_search": estimate_gradient_search(prompt, at.machine, at.samples).to_dict(),
            "static_search": {
                "samples": CALIBRATION,
                **estimate_static_search(prompt, at.machine, CALIBRATION).to_dict(),
            },
            "grid": {"configurations": configurations, **swept.to_dict()},
        },
        "scorers": sorted(SCORERS),
        "supported": _supported(config, sliding=any(window is not None for window in size.windows)),
    }


def _kv_bytes(cost: Cost, sample: Workload, budget: float) -> int:
    """Of one sample, when tokens leave at layer 2 so that the budget is met; at the floor where it cannot be."""
    full, counts = float(cost.full(sample)), sample.full(cost.num_layers)

    def pruned(keep: Tensor) -> Tensor:
        return torch.cat(
            [counts[:EARLY].expand(*keep.shape, -1), keep[..., None].expand(*keep.shape, cost.num_layers - EARLY)],
            dim=-1,
        )

    keep = largest_whole(lambda keep: cost.price(pruned(keep), sample).double() <= budget * full, sample.num_visual)
    return int(KvBytes(cost.dimensions).price(pruned(keep), sample))


def _path(model_type: str) -> str:
    if model_type not in FAMILIES:
        return "generic: tried when the model is loaded"
    return "first class" if model_type in FAMILIES[model_type].first_class else "generic, tested"


def _supported(config: Any, *, sliding: bool) -> dict[str, Any]:
    refused = ["static and quantised caches", "flex attention", "chunked prefill"]
    return {
        "path": _path(config.model_type),
        "attention": ["sdpa", "eager", "flash_attention_2"],
        "refused": [*refused, *(["flash attention beyond the sliding window"] if sliding else [])],
    }
