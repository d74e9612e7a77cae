"""Activation checkpointing (`torch.utils.checkpoint`) around a pruned model: passes that `backward()` runs again.

Around a whole pruned model that works, as long as the pruner is still there. Once it was removed, the second run would compute
something else than the first, in silence or with an error that does not name the cause; so it is refused.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any
from weakref import ref

from torch import nn
from torch.utils import checkpoint

from vispco.core.errors import PrunerStateError, UnsupportedModelError


def check_not_checkpointing(layers: Iterable[nn.Module]) -> None:
    """Refuse layers that would run a second time in the backward pass."""
    if any(layer.training and getattr(layer, "gradient_checkpointing", False) for layer in layers):
        raise UnsupportedModelError(
            "Gradient checkpointing is on: it runs the layers a second time in the backward pass, when the tokens of the forward "
            "pass are gone. Call model.gradient_checkpointing_disable() first; pruning saves memory of its own."
        )


class CheckpointedPasses:
    """The pruned passes of one language model under `torch.utils.checkpoint` whose graph is still alive.

    is_back: whether the pruner that was removed is on the model again.
    """

    def __init__(self, text: nn.Module, is_back: Callable[[], bool]) -> None:
        self._text, self._is_back = ref(text), is_back
        self._regions: list[ref[Any]] = []
        self._handle: Any = None

    def note(self) -> None:
        """A pruned pass begins."""
        region = _checkpointed_region()
        if region is not None and not self._knows(region):
            self._regions.append(ref(region, self._forget))

    def refuse_from_now_on(self) -> None:
        """The pruner is removed: none of these passes can be run again. Leaves nothing on the model once they are gone."""
        text = self._text()
        if self._regions and text is not None:
            self._handle = text.register_forward_pre_hook(self._check)

    def _check(self, *_: Any) -> None:
        region = _checkpointed_region()
        if region is not None and self._knows(region) and not self._is_back():
            raise PrunerStateError(
                "backward() runs a forward pass under torch.utils.checkpoint a second time, but the pruner of the first time is "
                "no longer on the model. Call backward() inside of the `with pruner(model)` block."
            )

    def _knows(self, region: Any) -> bool:
        return any(known() is region for known in self._regions)

    def _forget(self, gone: ref[Any]) -> None:
        self._regions.remove(gone)
        if not self._regions and self._handle is not None:
            self._handle.remove()

    def __reduce__(self) -> Any:
        return CheckpointedPasses, (nn.Identity(), bool)  # a copied model has no graph of its own


def _checkpointed_region() -> Any:
    """The object by which `torch.utils.checkpoint` identifies the current call, the same in both runs; None outside of one."""
    frame: Any = sys._getframe(1)  # noqa: SLF001 - nothing else says that a pass is checkpointed
    while frame is not None:
        if frame.f_code.co_filename == checkpoint.__file__:
            found = frame.f_locals
            if found.get("gen") is not None and found["gen"].gi_frame is not None:
                found = found["gen"].gi_frame.f_locals  # the first run, use_reentrant=False
            for name in ("ctx", "new_frame", "frame"):  # both runs, use_reentrant=True; first; second
                if found.get(name) is not None:
                    return found[name]
        frame = frame.f_back
    return None
