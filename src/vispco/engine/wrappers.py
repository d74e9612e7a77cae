"""Wrappers around a model (`torch.compile`, PEFT, DataParallel) and calls that bypass its forward hooks."""

import gc
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import ReferenceType, ref

from torch import Tensor, nn
from torch.compiler import disable

OnPrompt = Callable[[int | None], None]
"""Called with the length of the prompt when a generation begins, and with None when it ends."""


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


class Detours:
    """While installed, compiled wrappers run the plain model, and every generation reports the length of its prompt."""

    def __init__(self, given: Any, on_prompt: OnPrompt) -> None:
        self.model, self.on_prompt = unwrap(given), on_prompt
        self._given = ref(given)  # a compiled wrapper is not kept alive by what runs inside of it
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        # Compiled code does not see hooks that came after it, and a model does not know its compiled wrappers.
        frames, given = _compiled_frames(), self._given()
        if frames and (not _WRAPPERS or _WRAPPERS[0][0] != frames):
            found = [ref(made) for made in gc.get_objects() if type(made).__name__ == "OptimizedModule"]
            _WRAPPERS[:] = [(frames, found)]
        known = [made for _, found in _WRAPPERS for weak in found if (made := weak()) is not None]
        if type(given).__name__ == "OptimizedModule" and given not in known:
            known.append(given)
        for wrapper in known:
            if unwrap(wrapper) is self.model:
                self._shadow(wrapper, "forward", wrapper._modules["_orig_mod"].__call__)  # noqa: SLF001
        for module in self.model.modules():
            if getattr(module, "_compiled_call_impl", None) is not None:
                self._shadow(module, "_compiled_call_impl", None)
            own = plain = module.__dict__.get("forward")
            while (inside := getattr(plain, "_torchdynamo_orig_callable", None)) is not None:
                plain = inside
            if plain is not own:
                self._shadow(module, "forward", plain)
        # while the model is pruned, compiled functions call its plain forward
        self._shadow(self.model, "forward", disable(self.model.forward))  # type: ignore[no-untyped-call]
        if hasattr(self.model, "generate"):
            self._watch(self.model.generate)
        _forget_compiled()

    def remove(self) -> None:
        """Safe in any state."""
        if self._undo:
            _forget_compiled()
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def _watch(self, own: Callable[..., Any]) -> None:
        @wraps(own)
        def generate(*args: Any, **kwargs: Any) -> Any:
            given = [*args[:1], *(kwargs.get(name) for name in ("inputs", "input_ids", "inputs_embeds"))]
            prompt = next((x for x in given if isinstance(x, Tensor) and x.dim() > 1), None)
            self.on_prompt(None if prompt is None else int(prompt.shape[1]))
            try:
                return own(*args, **kwargs)
            finally:
                self.on_prompt(None)

        self._shadow(self.model, "generate", generate)

    def _shadow(self, module: Any, name: str, value: Any) -> None:
        """Put an attribute on an instance; what it had of its own comes back afterwards."""
        missing = object()
        before = module.__dict__.get(name, missing)

        def undo() -> None:
            if before is missing:
                module.__dict__.pop(name, None)
            else:
                module.__dict__[name] = before

        module.__dict__[name] = value
        self._undo.append(undo)


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
