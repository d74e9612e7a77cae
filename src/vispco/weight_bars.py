"""Hides the progress bars that transformers shows when it reads and writes weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WEIGHTS = ("Loading weights", "Writing model shards")  # the bars' names in transformers


@contextmanager
def hide_weight_bars() -> Iterator[None]:
    """Show no progress bar for weights that are read or written inside the block; a download keeps its own bar."""
    from transformers.utils import logging as notices  # noqa: PLC0415

    def bar(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return factory(*args, **{**options, "disable": True} if options.get("desc") in WEIGHTS else options)

    previous = notices.set_tqdm_hook(bar)
    try:
        yield
    finally:
        notices.set_tqdm_hook(previous)
