"""Hook objects that refer to their engine, so that the engine on a model can be found from the model.

Nothing outside of the model refers to an engine: a model that is deleted with its pruner still on it is freed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from torch import nn

from vispco.core.errors import PrunerStateError

if TYPE_CHECKING:
    from vispco.engine.engine import Engine


@dataclass(frozen=True, eq=False)
class Hook:
    """A forward hook of an engine."""

    engine: Engine
    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __deepcopy__(self, _: dict[int, Any]) -> NoReturn:
        raise PrunerStateError(
            f"A pruner is on this {type(self.engine.model).__name__}, and a copy of the model could not be taken off it. "
            "Remove the pruner first (pruner.remove(model), or leave its `with` block), then copy the model."
        )

    def __reduce__(self) -> NoReturn:
        raise PrunerStateError(
            f"A pruner is on this {type(self.engine.model).__name__}, so the model cannot be saved by pickle. Remove the "
            "pruner first (pruner.remove(model), or leave its `with` block), or use model.save_pretrained."
        )


def engine_on(base: nn.Module) -> Engine | None:
    """The engine that is attached to a model's inner module (`Family.base`), if there is one."""
    for hook in base._forward_pre_hooks.values():  # noqa: SLF001 - the only list of a module's hooks
        if isinstance(hook, Hook):
            return hook.engine
    return None
