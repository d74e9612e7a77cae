"""An independent prefill: the model's own eager attention, with the columns of dropped tokens masked one by one.

Nothing of the engine is used here. The attention function of each layer is the one that the model's file holds; it is handed
a mask in which dropped tokens are closed, and the weights that it returns choose what is dropped next.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask

from vispco.check.prompts import copied
from vispco.families import family_of

_NAME = "vispco_check_oracle"


class _Oracle:
    def __init__(
        self, model: nn.Module, visual: list[int], retention: Sequence[Any], read: Sequence[int], compensate: float
    ) -> None:
        family = family_of(model)
        self.layers = list(family.layers(model))
        self.place = {
            id(module): i
            for i, layer in enumerate(self.layers)
            for module in layer.modules()
            if hasattr(module, "config")
        }
        self.visual, self.retention, self.read, self.compensate = visual, retention, list(read), compensate
        self.live = list(visual)
        self.kept: list[list[int]] = []
        self.weights: Tensor | None = None
        self.implied = True  # whether no mask means a causal one

    def enter(self, layer: int) -> None:
        count = max(math.floor(self.retention[layer] * len(self.visual) + 0.5), len(self.read))
        if count < len(self.live):
            assert self.weights is not None  # noqa: S101 - the layer before has run
            row = self.weights[0, :, -1].float().mean(0)
            best = sorted(self.live, key=lambda v: (v not in self.read, -float(row[v]), v))[:count]
            self.live = [v for v in self.live if v in best]
        self.kept.append(list(self.live))

    def pictures(self) -> list[list[int]]:
        """Runs of neighbouring visual tokens."""
        found: list[list[int]] = []
        for position in self.visual:
            if not found or position != found[-1][-1] + 1:
                found.append([])
            found[-1].append(position)
        return found

    def attend(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        function = sys.modules[type(module).__module__].eager_attention_forward
        if mask is None:
            mask = torch.ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool)
            causal = options.get("is_causal")
            if self.implied and (getattr(module, "is_causal", True) if causal is None else causal):
                mask = mask.tril()
        if mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
        gone = [v for v in self.visual if v not in self.live]
        mask = mask.clone()
        for column in gone:
            own = mask[..., column, column].clone()
            mask[..., column] = torch.finfo(mask.dtype).min
            mask[..., column, column] = own
        if self.compensate and gone:
            text = [row for row in range(mask.shape[-2]) if row not in self.visual]
            for picture in self.pictures():
                left = [v for v in picture if v in self.live]
                for column in left:
                    mask[..., text, column] += self.compensate * math.log(len(picture) / len(left))
        out, weights = function(module, query, key, value, mask, **options)
        if id(module) in self.place:
            self.weights = weights
        return out, weights


_CURRENT: list[_Oracle] = []


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> Any:
    return _CURRENT[-1].attend(module, query, key, value, attention_mask, **options)


@torch.no_grad()
def oracle_prefill(
    model: Any,
    inputs: dict[str, Any],
    visual: list[int],
    retention: Sequence[Any],
    *,
    read: Sequence[int] = (),
    compensate: float = 0.0,
) -> tuple[Tensor, list[list[int]]]:
    """(logits, visual tokens that each layer sees) of one sample without padding, chosen by the attention of the last token.

    read: visual tokens that never leave. compensate: see `Chain`.
    """
    oracle = _Oracle(model, visual, retention, read, compensate)
    text: Any = family_of(model).text_model(model)
    own = str(text.config._attn_implementation)  # noqa: SLF001 - masks are made as for this one
    oracle.implied = own != "eager"
    AttentionInterface.register(_NAME, _attend)
    AttentionMaskInterface.register(_NAME, eager_mask if own == "eager" else ALL_MASK_ATTENTION_FUNCTIONS[own])
    configs: dict[int, Any] = {id(m.config): m.config for m in text.modules() if hasattr(m, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]  # noqa: SLF001
    handles = [
        layer.register_forward_pre_hook(lambda *_, i=i: oracle.enter(i)) for i, layer in enumerate(oracle.layers)
    ]
    _CURRENT.append(oracle)
    try:
        for config, _ in before:
            config._attn_implementation = _NAME  # noqa: SLF001
        logits: Tensor = model(**copied(inputs), use_cache=False).logits
    finally:
        _CURRENT.pop()
        for handle in handles:
            handle.remove()
        for config, name in before:
            config._attn_implementation = name  # noqa: SLF001
    return logits, oracle.kept


@torch.no_grad()
def sliced_prefill(model: Any, inputs: dict[str, Any], kept: Sequence[Sequence[int]]) -> Tensor:
    """Logits [1, M, V] of one sample whose layers are handed the tokens `kept` (original positions) and no others."""
    length = int(inputs["input_ids"].shape[1])
    before = list(range(length))

    def cut(x: Any, places: list[int], size: int) -> Any:
        if isinstance(x, tuple | list):
            return type(x)(cut(part, places, size) for part in x)
        if not isinstance(x, Tensor):
            return x
        for axis in range(1, x.dim()):  # in a mask, queries and keys
            if x.shape[axis] == size:
                x = x.index_select(axis, torch.tensor(places))
        return x

    def enter(layer: int) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            here = list(kept[layer])
            local = [before.index(position) for position in here]
            size, before[:] = len(before), here
            hidden = cut(args[0], local, size)
            rest = tuple(cut(x, here, length) for x in args[1:])
            return (hidden, *rest), {name: cut(x, here, length) for name, x in kwargs.items()}

        return hook

    layers = family_of(model).layers(model)
    handles = [layer.register_forward_pre_hook(enter(i), with_kwargs=True) for i, layer in enumerate(layers)]
    try:
        logits: Tensor = model(**copied(inputs), use_cache=False).logits
    finally:
        for handle in handles:
            handle.remove()
    return logits
