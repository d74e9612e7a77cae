"""Estimates from a model's config alone: visual tokens, parameters, FLOPs, memory, and the hours of a search or a grid.

The prefill of one prompt is priced by `vispco.cost`, and multiplied by how often it runs. Each generated token is counted
as two FLOPs per weight. The vision tower (once per picture) has an account of its own and is left out of hours, as is the
predictor. Hours follow from the given GPU: prefill runs at a share of its peak, and each generated token of a batch
reads the weights once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from vispco.core.errors import InvalidInputError, UnsupportedModelError, did_you_mean
from vispco.core.schedule import Schedule
from vispco.cost import Cost, Dimensions, KvBytes, Workload
from vispco.cost import get as get_cost
from vispco.evaluation.kl_meter import TOP_TOKENS
from vispco.families import FAMILIES, family_of
from vispco.families.tower_shape import TowerShape, account_sentence
from vispco.families.visual_tokens import visual_grid
from vispco.scorers import SCORERS
from vispco.search.bill import sample_bytes
from vispco.search.gradient.static import DescentSettings
from vispco.search.gradient.training_settings import LEAST_STEPS, PASSES
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.joint.space import default_chains
from vispco.search.search_spec import BUDGETS, Effort
from vispco.sweep.spaces import RATIOS
from vispco.timing.describe_settings import DescribeSettings

_DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
_SHOWN_BUDGETS = (1.0, 0.5, 0.1)
_CALIBRATION = 256  # samples of a static search, as the command takes them from a file
_EARLY = 2  # the layer where tokens leave in the example of a budget: FastV's
_RUNGS = 3  # of the successive halving of a static search


def _count_parameters(config: Any) -> tuple[int, int]:
    """Parameters of the model that transformers builds from a config, and of those outside of its language model."""
    from transformers import AutoModelForImageTextToText  # noqa: PLC0415 - loads the class of every model

    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    text = {id(p) for p in family_of(model).text_model(model).parameters()}
    head = model.get_output_embeddings()
    text |= {id(p) for p in head.parameters()} if head is not None else set()
    sizes = {id(p): p.numel() for p in model.parameters()}
    return sum(sizes.values()), sum(size for key, size in sizes.items() if key not in text)


def describe(
    config: Any, name: str, at: DescribeSettings, preprocessor: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Layers, tokens, FLOPs by both formulas, memory, and the cost of a search and of the grid.

    config: of transformers. preprocessor: the content of the model's preprocessor_config.json.
    """
    if not hasattr(config, "vision_config"):
        raise InvalidInputError(
            f"{name} is a config of type {config.model_type!r} without a vision tower. vispco prunes visual tokens of "
            "image-text-to-text models."
        )
    if at.dtype is not None and at.dtype not in _DTYPES:
        raise InvalidInputError(
            f"dtype={at.dtype!r} was given. Give {', '.join(_DTYPES)}.{did_you_mean(at.dtype, _DTYPES)}"
        )
    grid = visual_grid(config, *at.pixels, preprocessor) if at.visual is None else None
    visual = at.visual if grid is None else grid[0] * grid[1] + grid[2]
    assert visual is not None  # noqa: S101 - one of the two is given
    size = Dimensions.from_config(config, dtype=None if at.dtype is None else getattr(torch, at.dtype))
    prices = {key: get_cost(key, size) for key in ("exact", "paper")}
    workload, (parameters, vision) = Workload(at.text, visual), _count_parameters(config)
    family = FAMILIES.get(config.model_type)
    sliding = sum(window is not None for window in size.windows)
    caches = {f"{budget:.0%}": _kv_bytes(prices["exact"], workload, budget) for budget in _SHOWN_BUDGETS}
    return {
        "model": name,
        "model_type": config.model_type,
        "family": "generic" if family is None else family.__name__,
        "layers": size.num_layers,
        "hidden": size.hidden,
        "heads": size.heads,
        "kv_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "ffn": size.ffn,
        "sliding_layers": sliding,
        "image": None if at.visual is not None else list(at.pixels),
        "visual_tokens": visual,
        "text_tokens": at.text,
        "flops": {
            key: {f"{budget:.0%}": cost.full(workload).item() * budget for budget in _SHOWN_BUDGETS}
            for key, cost in prices.items()
        },
        "prefill": _whole_prefill(config, grid, float(prices["exact"].full(workload))),
        "not_counted": size.not_counted,
        "floor": {key: cost.lowest_fraction(workload).item() for key, cost in prices.items()},
        "parameters": parameters,
        "vision_parameters": vision,
        "weights_bytes": {dtype: parameters * number for dtype, number in _DTYPES.items()},
        "dtype_bytes": size.dtype_bytes,
        "kv_bytes": caches["100%"],
        "kv_bytes_at": caches,
        "estimates": _estimates(prices["exact"], parameters - vision, visual, at),
        "scorers": sorted(SCORERS),
        "supported": {
            "path": "generic: tried when the model is loaded"
            if family is None
            else ("first class" if config.model_type in family.first_class else "generic, tested"),
            "attention": ["sdpa", "eager", "flash_attention_2"],
            "refused": [
                *("static and quantised caches", "flex attention", "chunked prefill"),
                *(["flash attention beyond the sliding window"] if sliding else []),
            ],
        },
    }


def _whole_prefill(config: Any, grid: tuple[int, int, int] | None, language: float) -> dict[str, Any]:
    """FLOPs of the whole prefill and the tower's share of them, for one picture; or why they are not counted."""
    if grid is None:
        return {"tower": None, "sentence": "The picture's size was not given, so its vision tower is not counted."}
    try:
        tower = TowerShape.from_config(config).flops(((1, *grid[:2]),))
    except UnsupportedModelError as error:
        return {"tower": None, "sentence": str(error)}
    share = tower / (tower + language)
    found = {"tower": tower, "flops": tower + language, "tower_share": share, "language_only_limit": 1 / share}
    return {**found, "sentence": account_sentence(share)}


def _kv_bytes(cost: Cost, workload: Workload, budget: float) -> int:
    """Of one sample, when tokens leave at layer 2 so that the budget is met; with text alone where it cannot be."""
    visual = int(workload.num_visual)
    counts = torch.arange(visual + 1)[:, None].repeat(1, cost.num_layers)  # [V + 1, L]: each number of tokens that stay
    counts[:, :_EARLY] = visual
    within = cost.price(counts, workload) <= budget * cost.full(workload)
    most = max(int(within.sum()) - 1, 0)
    return int(KvBytes(cost.dimensions).price(counts[most], workload))


def _estimates(cost: Cost, language: int, visual: int, at: DescribeSettings) -> dict[str, Any]:
    """FLOPs, hours and prompts' worth of an evaluation, the two searches and the grid. language: parameters."""
    workload = Workload(at.text, visual)
    full = float(cost.full(workload))
    with_answer = float(cost.full(Workload(at.text + at.answer, visual)))  # as a search runs it
    weights = language * cost.dimensions.dtype_bytes

    def work(flops: float, hours: float) -> dict[str, float]:
        return {"flops": flops, "hours": hours, "prompts": flops / full}

    def evaluation(items: int, fraction: float = 1.0) -> dict[str, float]:
        """Answers to questions at a fraction of the unpruned prefill."""
        prefill, written = items * fraction * full, items * at.answer
        reading = written / at.batch_size * weights / (at.bandwidth * 1e12) / at.gpus
        return work(prefill + written * 2.0 * language, at.hours(prefill) + reading / 3600)

    def search(passes: float) -> dict[str, float]:
        """Prefills with the answer appended."""
        return work(passes * with_answer, at.hours(passes * with_answer))

    joint, floor = JointSettings(), float(cost.lowest_fraction(Workload(at.text, visual, "entry", 0)))
    teacher = joint.max_samples * at.answer * (2 * TOP_TOKENS + 1) * 4
    layers = cost.num_layers
    grid = [Schedule.single(layer, keep, layers).counts([visual])[0] for layer in range(1, layers) for keep in RATIOS]
    share = cost.price(torch.stack(grid), workload).sum().item() / len(grid) / full if grid else 1.0
    return {
        "machine": at.machine,
        "answer_tokens": at.answer,
        "samples": at.samples,
        "items": at.items,
        "batch": at.batch_size,
        "evaluation": evaluation(at.items),
        # the teacher once, then forward and backward through the masked model on every pass
        "gradient_search": search(
            at.samples + 3 * max(PASSES * at.samples, LEAST_STEPS * min(at.batch_size, at.samples))
        ),
        "joint_search": {
            "samples": joint.max_samples,
            **search(joint.expected_passes(len(default_chains()), joint.max_samples, BUDGETS, floor)),
            "bytes": weights
            + at.batch_size * sample_bytes(cost.dimensions, at.text + visual + at.answer, at.answer)
            + teacher,
        },
        "static_search": {"samples": _CALIBRATION, **search(_static_passes(_CALIBRATION, BUDGETS))},
        "grid": {"configurations": len(grid), **evaluation(at.items * len(grid), share)},
    }


def _static_passes(samples: int, budgets: Sequence[float]) -> float:
    """Unpruned passes over a sample that a static search is worth at most.

    The teacher once; for each budget shapes, the better ones on more samples (successive halving), then a descent. One
    step of it is a gradient over some batches, and a few step lengths that are tried on them.
    """
    plan, batch = DescentSettings(), Effort().batch_size
    seen = min(plan.batches * batch, samples) * plan.outer * plan.inner * plan.starts
    batches = [0.0, *(math.pow(samples / batch, rung / _RUNGS) for rung in range(1, _RUNGS + 1))]
    shapes = [math.pow(plan.explore or 0, 1 - rung / _RUNGS) for rung in range(_RUNGS)]
    halving = sum(number * (batches[rung + 1] - batches[rung]) for rung, number in enumerate(shapes)) * batch
    tried = halving + seen * (1 + len(plan.lengths)) + plan.starts * samples
    return samples + sum(tried * budget for budget in budgets) + 3 * seen * len(budgets)
