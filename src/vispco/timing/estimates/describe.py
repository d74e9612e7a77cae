"""`describe`: what a config says about a model and about the work of pruning it, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.scorers import SCORERS
from vispco.timing.estimates.known_config import FAMILY, GENERIC, KnownConfig
from vispco.timing.estimates.model_size import DTYPES, count_parameters, visual_tokens
from vispco.timing.estimates.prefill_size import PrefillSize, known_prefill_size, prefill_size
from vispco.timing.estimates.work import (
    Machine,
    PromptSize,
    estimate_evaluation,
    estimate_gradient_search,
    estimate_grid,
    estimate_static_search,
)

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
    """Layers, tokens, FLOPs by both formulas, memory, and the cost of a search and of the grid.

    config: of transformers, or a `KnownConfig`, for which nothing heavy is imported.
    """
    if not hasattr(config, "vision_config"):
        raise InvalidInputError(
            f"{name} is a config of type {config.model_type!r} without a vision tower. vispco prunes visual tokens of "
            "image-text-to-text models."
        )
    if at.dtype is not None and at.dtype not in DTYPES:
        raise InvalidInputError(
            f"dtype={at.dtype!r} was given. Give {', '.join(DTYPES)}.{did_you_mean(at.dtype, DTYPES)}"
        )
    visual = visual_tokens(config, *at.image, preprocessor) if at.visual is None else at.visual
    known = isinstance(config, KnownConfig)
    size = known_prefill_size(config, at.dtype) if known else prefill_size(config, at.dtype)
    counted, family, path = count_parameters(config), *_family(config)
    sliding = sum(window is not None for window in size.windows)
    prompt = PromptSize(
        price=size.prices["exact"],
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
        "family": family,
        "layers": size.layers,
        "hidden": size.hidden,
        "heads": size.heads,
        "kv_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "ffn": size.ffn,
        "sliding_layers": sliding,
        "image": None if at.visual is not None else list(at.image),
        "visual_tokens": visual,
        "text_tokens": at.text,
        "flops": {
            key: {f"{budget:.0%}": price.full(at.text, visual) * budget for budget in BUDGETS}
            for key, price in size.prices.items()
        },
        "not_counted": size.not_counted,
        "floor": {key: price.floor(at.text, visual) for key, price in size.prices.items()},
        "parameters": counted.parameters,
        "vision_parameters": counted.vision,
        "weights_bytes": {dtype: counted.weights(dtype) for dtype in DTYPES},
        "dtype_bytes": size.dtype_bytes,
        "kv_bytes": _kv_bytes(size, at.text, visual, 1.0),
        "kv_bytes_at": {f"{b:.0%}": _kv_bytes(size, at.text, visual, b) for b in BUDGETS},
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
        "supported": _supported(path, sliding=sliding > 0),
    }


def _kv_bytes(size: PrefillSize, text: int, visual: int, budget: float) -> int:
    """Of one sample, when tokens leave at layer 2 so that the budget is met; at the floor where it cannot be."""
    keep = size.prices["exact"].most(text, visual, EARLY, budget)
    return size.kv_bytes([text + (visual if layer < EARLY else keep) for layer in range(size.layers)])


def _family(config: Any) -> tuple[str, str]:
    """(family, how well it is tested)."""
    kind = config.model_type
    if isinstance(config, KnownConfig):
        return FAMILY[kind], "generic, tested" if kind in GENERIC else "first class"
    from vispco.families import FAMILIES  # noqa: PLC0415 - seconds, only for what is not known

    if kind not in FAMILIES:
        return "generic", "generic: tried when the model is loaded"
    found = FAMILIES[kind]
    return found.__name__, "first class" if kind in found.first_class else "generic, tested"


def _supported(path: str, *, sliding: bool) -> dict[str, Any]:
    refused = ["static and quantised caches", "flex attention", "chunked prefill"]
    return {
        "path": path,
        "attention": ["sdpa", "eager", "flash_attention_2"],
        "refused": [*refused, *(["flash attention beyond the sliding window"] if sliding else [])],
    }
