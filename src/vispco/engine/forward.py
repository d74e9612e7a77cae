"""Context managers around forward passes: positions of answers and visual tokens in, states and attention calls out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from vispco.engine.attention import Attended, AttentionCall, AttentionTap
from vispco.engine.layer_map import LayerMap
from vispco.families import family_of

VISUAL: ContextVar[Tensor | None] = ContextVar("visual", default=None)
ANSWERS: ContextVar[Tensor | None] = ContextVar("answers", default=None)
"""The masks of `visual_at` and `answers_at`, inside of them."""


@contextmanager
def answers_at(mask: Tensor) -> Iterator[None]:
    """Inside the block, forward passes know which tokens are answers (bool [B, N]): those are never queries of a scorer.

    A model that is called with `labels` does not need it.
    """
    token = ANSWERS.set(mask)
    try:
        yield
    finally:
        ANSWERS.reset(token)


@contextmanager
def visual_at(mask: Tensor) -> Iterator[None]:
    """Inside the block, a prefill has its visual tokens where the mask says (bool [B, N]).

    For prompts given as `inputs_embeds` into which the features of pictures were merged beforehand.
    """
    token = VISUAL.set(mask)
    try:
        yield
    finally:
        VISUAL.reset(token)


def read_positions(answers: Tensor | None, logits_to_keep: int | Tensor, length: int) -> Tensor | None:
    """Positions whose output a caller reads, besides the last one: bool [B or 1, N]; None if there are no others.

    answers: bool [B, N], tokens that are foretold (labels), each by the position before it. logits_to_keep: as transformers
    takes it, the number of last positions or the indices of some; 0 for all, of which none is named.
    """
    read = None
    if answers is not None:
        read = torch.nn.functional.pad(answers[:, 1:], (0, 1))
    if isinstance(logits_to_keep, Tensor) or logits_to_keep > 1:
        named = torch.zeros(1, length, dtype=torch.bool, device=getattr(logits_to_keep, "device", None))
        named[:, logits_to_keep if isinstance(logits_to_keep, Tensor) else slice(-logits_to_keep, None)] = True
        read = named if read is None else read | named.to(read.device)
    return read


@contextmanager
def recorded_embeddings(model: Any) -> Iterator[list[Tensor]]:
    """A list that gets the embeddings [B, N, D] entering the language model, one for each forward pass inside the block."""
    seen: list[Tensor] = []

    def entering(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.append(kwargs["inputs_embeds"] if kwargs.get("inputs_embeds") is not None else args[0])

    handle = family_of(model).text_model(model).register_forward_pre_hook(entering, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()


@contextmanager
def layer_inputs(model: Any, see: Callable[[int, Tensor], None]) -> Iterator[None]:
    """Inside the block, `see(layer, hidden)` is called with the states [B, N, D] that enter each decoder layer."""

    def entering(layer: int) -> Callable[..., None]:
        return lambda _, args, kwargs: see(layer, args[0] if args else kwargs["hidden_states"])

    layers = enumerate(family_of(model).layers(model))
    handles = [each.register_forward_pre_hook(entering(place), with_kwargs=True) for place, each in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def attention_calls(model: Any, see: Callable[[int, AttentionCall], None]) -> Iterator[None]:
    """Inside the block, `see(layer, call)` is called with every attention call of the decoder layers before it runs."""
    layers = LayerMap.of(family_of(model), model)
    layers.check_readable()

    def handle(layer: int, call: AttentionCall) -> Attended:
        see(layer, call)
        return call.run()

    tap = AttentionTap(layers.attentions, handle)
    tap.install()
    try:
        yield
    finally:
        tap.remove()
