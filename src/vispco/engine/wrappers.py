"""Wrappers around a model (`torch.compile`, PEFT, DataParallel) and calls that bypass its forward hooks."""

from __future__ import annotations

import gc
import sys
from contextlib import ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from torch import Tensor, nn
from torch.compiler import disable

if TYPE_CHECKING:
    from vispco.engine.call_state import CallState


def unwrap(model: Any) -> Any:
    """The transformers model inside of `torch.compile`, PEFT, DataParallel and their like."""
    while isinstance(model, nn.Module):
        parts = model._modules  # noqa: SLF001 - wrappers forward every other attribute to what is inside
        # torch.compile; DataParallel, DistributedDataParallel, FSDP
        inner = parts.get("_orig_mod") or parts.get("module")
        if inner is None or len(parts) > 1:
            peft = getattr(type(model), "get_base_model", None)
            inner = peft(model) if callable(peft) else None
        if inner is None or inner is model:
            return model
        model = inner
    return model


def install_detours(given: Any, state: CallState, stack: ExitStack) -> None:
    """Until the stack is closed, compiled wrappers run the plain model, and `state.prompt` is the length of a generation's prompt.

    given: the model, or a wrapper around it.
    """
    model = unwrap(given)
    stack.callback(_forget_compiled)
    # Compiled code does not see hooks that came after it, and a model does not know its compiled wrappers.
    frames = _compiled_frames()
    if frames and (not _WRAPPERS or _WRAPPERS[0][0] != frames):
        found = [ref(made) for made in gc.get_objects() if type(made).__name__ == "OptimizedModule"]
        _WRAPPERS[:] = [(frames, found)]
    known = [made for _, found in _WRAPPERS for weak in found if (made := weak()) is not None]
    if type(given).__name__ == "OptimizedModule" and given not in known:
        known.append(given)
    for wrapper in known:
        if unwrap(wrapper) is model:
            shadow(stack, wrapper, "forward", wrapper._modules["_orig_mod"].__call__)  # noqa: SLF001
    for module in model.modules():
        if getattr(module, "_compiled_call_impl", None) is not None:
            shadow(stack, module, "_compiled_call_impl", None)
        own = plain = module.__dict__.get("forward")
        while (inside := getattr(plain, "_torchdynamo_orig_callable", None)) is not None:
            plain = inside
        if plain is not own:
            shadow(stack, module, "forward", plain)
    # while the model is pruned, compiled functions call its plain forward
    shadow(stack, model, "forward", disable(model.forward))  # type: ignore[no-untyped-call]
    if (generate := getattr(model, "generate", None)) is not None:

        @wraps(generate)
        def noting_the_prompt(*args: Any, **kwargs: Any) -> Any:
            inputs = [*args[:1], *(kwargs.get(name) for name in ("inputs", "input_ids", "inputs_embeds"))]
            prompt = next((x for x in inputs if isinstance(x, Tensor) and x.dim() > 1), None)
            state.prompt = None if prompt is None else int(prompt.shape[1])
            try:
                return generate(*args, **kwargs)
            finally:
                state.prompt = None

        shadow(stack, model, "generate", noting_the_prompt)
    _forget_compiled()


def shadow(stack: ExitStack, module: Any, name: str, value: Any) -> None:
    """Put an attribute on an instance. What it had of its own (accelerate gives it some) comes back with the stack's end."""
    own = module.__dict__
    if name in own:
        stack.callback(own.__setitem__, name, own[name])
    else:
        stack.callback(own.pop, name, None)
    own[name] = value


_WRAPPERS: list[tuple[int, list[ReferenceType[Any]]]] = []
"""The compiled wrappers that were found last, and the number of frames that had been compiled by then."""


def _compiled_frames() -> int:
    """The number of frames that torch.compile has compiled so far."""
    utils = sys.modules.get("torch._dynamo.utils")
    return 0 if utils is None else int(utils.counters["frames"]["total"])


def _forget_compiled() -> None:
    """Discard compiled code: it does not check for hooks that were added or removed after it was made."""
    if _compiled_frames():
        sys.modules["torch._dynamo"].reset()
