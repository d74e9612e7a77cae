"""Options of an engine, and its state for the forward pass of one thread."""

import threading
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from vispco.core.layout import Array, TokenLayout
from vispco.engine.arguments import ArgumentCutter
from vispco.engine.masking import Relaxation
from vispco.engine.passes import PruningPass
from vispco.engine.plan import TokenPlan
from vispco.engine.safety import RowCheck

Mode = Literal["drop", "mask"]


@dataclass(frozen=True)
class EngineOptions:
    """Options of an engine.

    mode: 'drop' removes tokens; 'mask' hides them from attention and computes all. relaxation: a gradient for masks.
    record: keep which visual tokens were live at each layer of the last prefill.
    tower: the retention before each block of the vision tower; None where it is not cut.
    pixels: the share of their pixels with which pictures enter.
    """

    mode: Mode = "drop"
    relaxation: Relaxation | None = None
    record: bool = False
    tower: tuple[float, ...] | None = None
    pixels: float = 1.0


class CallState(threading.local):
    """State of one thread's forward pass."""

    layout: TokenLayout | None = None
    labels: Tensor | None = None
    logits_to_keep: int | Tensor = 0  # as the caller asked for them
    current: PruningPass | ArgumentCutter | None = None  # the latter in a pass that prunes nothing
    probing: bool = False  # a layer runs only to show its queries and keys
    entered: bool = False  # the whole model was called, and its pass has not begun
    prompt: int | None = None  # its length, while a generation runs
    written: int = 0  # number of tokens that it has generated already
    check: RowCheck | None = None
    past: int = 0
    untouched: int = 0  # number of leading layers left unchanged
    tracked: bool = False  # whether its cache was pruned before
    injected: tuple[Tensor, dict[int, Tensor]] | None = None  # see `Family.injections`
    # of the last prefill:
    plan: TokenPlan | None = None
    sizes: Array | None = None  # see `TokenLayout.prompt_sizes`
    tower: tuple[Array | None, Array | None] = (None, None)  # see `CutLayout`
    counts: Tensor | None = None
    trace: list[Tensor] | None = None
