"""What a scorer is: it rates the live visual tokens of one layer, and says what it must see to do so.

A scorer never decides how many tokens stay and never touches an index: the schedule and the engine do that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor

from vispco.errors import InvalidInputError, UnknownNameError
from vispco.layout import TokenLayout

Rows = Literal["last", "text", "visual"]
Site = Literal["entry", "mid"]


class MassReader(Protocol):
    """How a context asks the engine for attention; see `ScoringContext.attention`."""

    def __call__(self, rows: Rows, heads: Literal["mean", "max"], weights: Tensor | None) -> Tensor: ...


@dataclass
class ScoringContext:
    """One layer, as a scorer sees it. B samples, V visual slots (the largest count in the batch).

    layer: the decoder layer whose attention is read; tokens leave before layer + 1 processes them.
    live: bool [B, V], the visual tokens that are still there. counts: int64 [B], how many will stay.
    embeddings: [B, N, D], what entered the language model. hidden: [B, V, D], the visual tokens' states before layer
        + 1, for scorers that declare `needs_hidden`, else None.
    memo: kept for the length of one prefill, for what a scorer computes once.
    """

    layer: int
    layout: TokenLayout
    live: Tensor
    counts: Tensor
    embeddings: Tensor
    hidden: Tensor | None
    read_mass: MassReader | None
    memo: dict[str, Any] = field(default_factory=dict)

    def attention(self, rows: Rows, heads: Literal["mean", "max"] = "mean", weights: Tensor | None = None) -> Tensor:
        """Attention that each visual token receives, summed over query rows; float32 [B, V].

        rows: 'last' is the last instruction token, 'text' the instruction tokens after the first visual token,
        'visual' the live visual tokens. heads: how the heads are reduced, row by row. weights: [B, R], for 'text' in
        the order of `layout.instruction_index`, for 'visual' of `layout.visual_index`.
        """
        if self.read_mass is None:
            raise InvalidInputError(
                "This scorer reads attention but does not declare it. Set `needs_attention = True` on its class."
            )
        return self.read_mass(rows, heads, weights)


class Scorer(ABC):
    """Rates visual tokens; higher is kept. Subclasses set `name`, say what they need, and write `score`."""

    name: ClassVar[str]
    needs_attention: ClassVar[bool] = True
    """Reads attention of the layer before, so the first layer always processes every token (r_0 = 1)."""
    needs_hidden: bool = False
    """Looks at the hidden states of the visual tokens, `context.hidden`."""
    site: ClassVar[Site] = "entry"
    """Where tokens leave: at the entry of the next layer, or already between attention and FFN ('mid')."""

    @abstractmethod
    def score(self, context: ScoringContext) -> Tensor:
        """Importance of each visual token; float [B, V]. Values at slots that are not live are ignored."""

    def merge(self, context: ScoringContext, scores: Tensor, keep: Tensor) -> Tensor | None:  # noqa: ARG002
        """Which dropped tokens are averaged into which kept ones: int64 [B, V], a slot or -1; None for no merging."""
        return None

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        """How many attention rows one scoring reads, given the text rows and the live visual tokens; see `cost`."""
        return 0

    def setup_flops(self, num_instruction: int, num_visual: int, hidden: int) -> int:  # noqa: ARG002
        """FLOPs spent once per prefill, before any layer is scored."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Name and options; `vispco.scorers.get(**d)` makes it again."""
        return {"name": self.name, **{k: v for k, v in vars(self).items() if not k.startswith("_")}}

    def __repr__(self) -> str:
        options = ", ".join(f"{k}={v!r}" for k, v in self.to_dict().items() if k != "name")
        return f"{type(self).__name__}({options})"


SCORERS: dict[str, type[Scorer]] = {}


def register(scorer: type[Scorer]) -> type[Scorer]:
    """Make a scorer known by its name: a decorator for its class."""
    if scorer.name in SCORERS:
        raise InvalidInputError(f"A scorer named {scorer.name!r} is registered already; choose another name.")
    SCORERS[scorer.name] = scorer
    return scorer


def get(scorer: str | Scorer | None = None, /, **options: Any) -> Scorer:
    """A scorer by name, with its options; a scorer object is given back as it is."""
    if isinstance(scorer, Scorer):
        return scorer
    name = scorer if scorer is not None else options.pop("name")
    if name not in SCORERS:
        raise UnknownNameError("scorer", name, list(SCORERS))
    try:
        return SCORERS[name](**options)
    except TypeError as error:
        raise InvalidInputError(f"The scorer {name!r} does not take these options: {options}. {error}") from error
