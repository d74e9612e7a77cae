"""Overhead of pruning in prefill and decoding, in operations and waits for the device: the same on every machine.

An operation is one that torch dispatches below autograd, views among them: on a GPU most of them are a launch. A wait is a
call that brings a value of the model's device to the host: `.item()`, `.tolist()`, `.cpu()`, `bool()`, `int()`,
`float()`, or indexing by a boolean mask.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from vispco import cost
from vispco.core.layout import _KNOWN, TokenLayout
from vispco.core.small_arrays import all_on_devices
from vispco.engine import Planner
from vispco.engine.forward import recorded_embeddings
from vispco.families import family_of
from vispco.pruner.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain, ScoringContext, VisionRecord, get

WAITS = frozenset(
    ("item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__", "nonzero", "masked_select")
)
INDEXING = frozenset(("__getitem__", "__setitem__"))


@dataclass
class Counts:
    """operations, waits: how often each was called, by name."""

    operations: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)

    @property
    def number(self) -> int:
        return self.operations.total()

    @property
    def syncs(self) -> int:
        return self.waits.total()

    def beyond(self, other: Counts) -> dict[str, int]:
        """By name, the operations that are more than in another count; negative where they are fewer."""
        names = {*self.operations, *other.operations}
        return {n: d for n in sorted(names) if (d := self.operations[n] - other.operations[n])}


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch is untyped here
    def __init__(self, counts: Counts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts.operations[str(func)] += 1
        return func(*args, **(kwargs or {}))


class _Waits(TorchFunctionMode):
    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in WAITS or (name in INDEXING and _by_mask(args[1])) or (name == "to" and "cpu" in args[1:]):
            self.counts.waits[name] += 1
        return func(*args, **(kwargs or {}))


def _by_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, Tensor) and part.dtype == torch.bool for part in parts)


@contextmanager
def counting() -> Iterator[Counts]:
    """Counts operations and waits inside the block."""
    found = Counts()
    with _Waits(found), _Operations(found):
        yield found


@torch.no_grad()
def count(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Counts:
    """Run a call and count its operations and waits."""
    with counting() as found:
        call(*args, **kwargs)
    return found


STEPS = 4  # decoding steps that are counted; the dearest behind the first one stands for all


def prefill(model: Any, inputs: Mapping[str, Any], pruner: Pruner | None = None) -> Counts:
    """The counts of one prefill that fills a cache, the vision tower included."""
    call = {**inputs, "use_cache": True, "logits_to_keep": 1}
    with nullcontext() if pruner is None else pruner(model):
        if pruner is not None:
            with torch.no_grad():
                model(**call)  # once for each model, the first prefill checks that its attention is read right
        _KNOWN.clear()  # as for a prompt of a new size
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
        _KNOWN.clear()
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
