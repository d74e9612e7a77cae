"""Overhead of pruning in prefill and decoding, in operations and synchronisations: the same on every machine."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from vispco import cost
from vispco.core.layout import TokenLayout, forget_layouts
from vispco.core.small_arrays import all_on_devices
from vispco.engine import Planner
from vispco.engine.forward import recorded_embeddings
from vispco.families import family_of
from vispco.pruner.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain, ScoringContext, VisionRecord, get
from vispco.timing.operations import Counts, count, counting

STEPS = 4  # decoding steps that are counted; the dearest behind the first one stands for all


def prefill(model: Any, inputs: Mapping[str, Any], pruner: Pruner | None = None) -> Counts:
    """The counts of one prefill that fills a cache, the vision tower included."""
    call = {**inputs, "use_cache": True, "logits_to_keep": 1}
    with nullcontext() if pruner is None else pruner(model):
        if pruner is not None:
            with torch.no_grad():
                model(**call)  # once for each model, the first prefill checks that its attention is read right
        forget_layouts()  # as for a prompt of a new size
        return count(model, **call)


def decoding(model: Any, inputs: Mapping[str, Any], pruner: Pruner | None = None) -> Counts:
    """The counts of the dearest of some decoding steps behind the first one, which may prepare for those to come."""
    with nullcontext() if pruner is None else pruner(model), _each_forward(model) as steps:
        model.generate(**inputs, max_new_tokens=STEPS + 2, min_new_tokens=STEPS + 2, do_sample=False, pad_token_id=0)
    return max(steps[2:], key=lambda counts: counts.number)


@torch.no_grad()
def planning(model: Any, inputs: Mapping[str, Any], make: Callable[[], Planner]) -> tuple[Counts, Counts]:
    """The counts of one plan, and of the same plan asked for again, as they are on a device that is not the host."""
    with recorded_embeddings(model) as seen:
        model(**inputs)
    layouts = []
    for _ in range(2):
        forget_layouts()
        layouts.append(family_of(model).layout(model, inputs))
    with all_on_devices():
        planner = make()
        first, again = (count(planner, layout, seen[0]) for layout in layouts)
    return first, again


@torch.no_grad()
def selecting(scorer: str, num_visual: int, keep: int) -> Counts:
    """The counts of one choice before the language model, as they are on a device that is not the host."""
    with all_on_devices():
        return count(get(scorer).select, random_context(num_visual, keep))


def random_context(num_visual: int, keep: int, width: int = 64, num_text: int = 16, seed: int = 0) -> ScoringContext:
    """One sample of random states before the language model, of which `keep` visual tokens may stay."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(1, num_visual + num_text, width, generator=generator)
    seen = VisionRecord(states[:, :num_visual], {-1: torch.rand(1, num_visual, generator=generator)})
    layout = TokenLayout.build((torch.arange(num_visual + num_text) < num_visual)[None])
    live = torch.ones(1, num_visual, dtype=torch.bool)
    return ScoringContext(0, layout, live, torch.tensor([keep]), states, None, (keep,), vision=seen)


@torch.no_grad()
def random_joint_predictor(
    model: Any, chains: Sequence[str], samples: int = 96, anchors: int = 32, seed: int = 0
) -> JointPredictor:
    """A predictor of the kind that a joint search makes, for chains that it chooses, with random contents."""
    generator = torch.Generator().manual_seed(seed)
    price = cost.get("exact", model.config)
    config = JointPredictorConfig(
        hidden=price.dimensions.hidden,
        anchors=anchors,
        samples=samples,
        chains=[Chain.of(chain).to_dict() for chain in chains],
        cost=price.to_dict(),
    )
    made: JointPredictor = JointPredictor(config).eval()
    for table in (made.memory.axes, made.memory.keys, made.memory.kl):
        table.copy_(torch.rand(table.shape, generator=generator))
    made.params.add_(torch.randn(made.params.shape, generator=generator))
    made.chain.copy_(torch.arange(anchors) % len(chains))
    levels = torch.tensor([0.04, 0.08, 0.12, 0.18, 0.25, 0.35, 0.5, 0.7])
    made.level.copy_(levels[torch.arange(anchors) * len(levels) // anchors])
    made.memory.bandwidth.copy_(made.level + 0.1)  # one for each level
    text, visual = torch.randint(16, 256, (2, samples), generator=generator)
    made.sizes.copy_(torch.stack([text, visual, text, torch.zeros_like(text)], dim=-1))
    return made


@contextmanager
def _each_forward(model: Any) -> Iterator[list[Counts]]:
    found: list[Counts] = []
    own = model.forward

    @functools.wraps(own)
    def forward(*args: Any, **kwargs: Any) -> Any:
        with counting() as counts:
            out = own(*args, **kwargs)
        found.append(counts)
        return out

    model.__dict__["forward"] = forward
    try:
        yield found
    finally:
        del model.__dict__["forward"]
