"""`Scorer`: rates or chooses visual tokens before one layer, and declares what it must see to do so.

Three kinds of method, from the simplest to the most general:

- a rating: override `score`; the best `context.counts` tokens stay;
- a set: override `select` and return the tokens that stay, at most `context.counts` of each sample. A method that decides by
  itself how many stay also sets `decides_count` and says at which layers it does (`acts_at`);
- merging: `select` also returns a `Merge`, which says which tokens live on inside others.

A method with weights of its own is a `LearnedScorer` (see `vispco.scorers.learned`).

A scorer never gathers hidden states, masks or caches: the engine does that.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.indexing import token_index
from vispco.core.registry import Registry
from vispco.cost.dimensions import Dimensions
from vispco.cost.workload import Site
from vispco.scorers.context import Block, ScoringContext


@dataclass(frozen=True)
class VisionNeeds:
    """Parts of the vision tower that a scorer reads.

    features: the states that the projector reads. attention: blocks whose attention is read, from the class token where the
    tower has one, else from all patches. received: blocks whose attention is read from all patches in any case. keys: blocks
    whose keys are read. A block is a number, counted from the end if it is negative (-1 is the last one that the projector
    sees), or a share of the depth such as 0.37: the nearest block there that sees the whole picture.
    """

    features: bool = False
    attention: tuple[Block, ...] = ()
    received: tuple[Block, ...] = ()
    keys: tuple[Block, ...] = ()

    def __bool__(self) -> bool:
        return self.features or bool(self.attention or self.received or self.keys)

    def __or__(self, other: VisionNeeds) -> VisionNeeds:
        """The union of both."""
        return VisionNeeds(
            self.features or other.features,
            tuple(dict.fromkeys((*self.attention, *other.attention))),
            tuple(dict.fromkeys((*self.received, *other.received))),
            tuple(dict.fromkeys((*self.keys, *other.keys))),
        )


@dataclass(frozen=True, eq=False)
class Merge:
    """Which tokens live on inside others.

    into: int64 [B, V], the slot that each token is merged into, -1 for none. A token that others are merged into names itself if
        its own state takes part. The result stands at the position of the slot that was named.
    weight: float [B, V], of each token in the sum; default: its size, so that a merged token is the mean of all original ones.
    normalise: divide the sum by the sum of the weights.
    """

    into: Tensor
    weight: Tensor | None = None
    normalise: bool = True


@dataclass(frozen=True, eq=False)
class Selection:
    """The decision of a scorer.

    keep: bool [B, V], the tokens that stay; at most `context.counts` of each sample, all of them live.
    scores: float [B, V], higher is kept; what a relaxation of the choice ranks by. Default: `keep` itself.
    merge: see `Merge`; None for plain dropping.
    mask: float [B, V], `keep` in value with a gradient of its own, from scorers that are `differentiable`. Masking
        multiplies attention by it; dropping has no use for it.
    """

    keep: Tensor
    scores: Tensor | None = None
    merge: Merge | None = None
    mask: Tensor | None = None


class Scorer:
    """Rates or chooses visual tokens. Subclasses set `name`, say what they need, and override `score` or `select`.

    Options are the arguments of `__init__`, kept as attributes of the same name.
    """

    name: ClassVar[str]
    needs_attention: bool = True
    """Reads attention of the layer before (`context.attention`)."""
    needs_entering: bool = False
    """Reads attention of the layer that the tokens are about to enter (`context.attention(..., of="entering")`)."""
    needs_hidden: bool = False
    """Looks at the hidden states of the visual tokens (`context.hidden`)."""
    needs_previous_hidden: bool = False
    """Also looks at their states one layer earlier (`context.previous_hidden`)."""
    needs_text_hidden: bool = False
    """Looks at the hidden states of the instruction tokens (`context.text_hidden`)."""
    needs_vision: VisionNeeds = VisionNeeds()
    """What it reads of the vision tower (`context.vision`)."""
    needs_pixels: bool = False
    """Whether it reads the pixels of cells (`context.vision.pixels`) where it chooses inside the vision tower."""
    site: Site = "entry"
    """Where tokens leave: at the entry of the next layer, or already between attention and feed-forward network ('mid')."""
    merges: bool = False
    """Whether `select` may return a `Merge`. Such a method cannot be masked, only dropped."""
    rebuilds: bool = False
    """Whether what leaves inside the vision tower is rebuilt at its end, from the nearest cells that stayed."""
    decides_count: bool = False
    """Whether fewer than `context.counts` may stay. The engine then asks the device for the real numbers."""

    differentiable: bool = False
    """Whether `select` is run with gradients, towards weights of its own, and returns a `Selection.mask`."""

    @property
    def rates(self) -> bool:
        """Whether its choice is the best-scored tokens and nothing else: `select` is not its own."""
        return type(self).select is Scorer.select

    @property
    def reads_question(self) -> bool:
        """Whether the choice depends on text that stands behind the picture. Scorers that read its embeddings say so."""
        return self.needs_attention or self.needs_entering or self.needs_text_hidden

    @property
    def earliest_layer(self) -> int:
        """The first layer before which it can choose: 0 is before the language model, which has no attention to read."""
        return int(self.needs_attention or self.needs_previous_hidden or self.site == "mid")

    @property
    def serves_tower(self) -> bool:
        """Whether it can choose inside the vision tower, where there is no text and no attention of the language model."""
        needs = self.needs_vision  # the block before the cut stands for the last one
        asks = self.reads_question or self.needs_hidden or self.needs_previous_hidden
        asks = asks or bool(needs.keys or needs.received) or not {*needs.attention} <= {-1}
        return not (asks or self.merges or self.decides_count or self.differentiable or self.site == "mid")

    def check_tower(self, block: int) -> None:
        """Refuse a place before a block of the vision tower."""
        if not self.serves_tower:
            raise InvalidInputError(
                f"The scorer {self.name!r} was put at block {block} of the vision tower, but it reads what only the language model "
                "has. Use 'divprune', 'vispruner', 'uniform' or 'random' there."
            )
        if block == 0 and (self.needs_vision or self.needs_previous_hidden):
            raise InvalidInputError(
                f"The scorer {self.name!r} was put at block 0 of the vision tower, but it reads what the block before has computed. "
                "Put it at block 1 or deeper."
            )

    def for_model(self, model: Any) -> Scorer:  # noqa: ARG002
        """The scorer that the engine runs on a model: itself, or for a learned method itself with the weights for that model."""
        return self

    def acts_at(self, layer: int) -> bool:  # noqa: ARG002
        """Whether it chooses before this layer even where the schedule asks for no drop (methods with a threshold)."""
        return False

    def score(self, context: ScoringContext) -> Tensor:  # noqa: ARG002
        """Importance of each visual token; float [B, V]. Values at slots that are not live are ignored."""
        raise InvalidInputError(
            f"The scorer {type(self).__name__} overrides neither `score` nor `select`. Write one of them."
        )

    def select(self, context: ScoringContext) -> Selection:
        """The tokens that stay; by default the best-scored ones, ties going to the earlier token."""
        scores = self.score(context)
        return Selection(top_tokens(scores, context.live, context.counts), scores)

    def attention_rows(self, num_instruction: int, num_live: int) -> int:  # noqa: ARG002
        """The number of attention rows that one choice reads, given text rows and live visual tokens; see `scoring_flops`."""
        return 0

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        """FLOPs of matrix products in one choice, besides those rows.

        num_tokens: all that are left, text and visual; num_visual: the original visual tokens, which is how wide a context is.
        """
        return 0

    def flops_per_kept(self, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        """FLOPs of one choice for each token that stays: what merging takes."""
        return 0

    def setup_flops(self, num_instruction: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        """FLOPs spent once per prefill in which it chooses. Reading the vision tower is counted for it."""
        return 0

    def tower_flops(self, there: int, kept: int, dimensions: Dimensions) -> int:
        """FLOPs of choosing `kept` of `there` cells inside the vision tower. dimensions: its width is `hidden`."""
        once = self.setup_flops(0, there, dimensions) + self.choice_flops(there, there, dimensions)
        return int(once + kept * self.flops_per_kept(there, dimensions))

    def to_dict(self) -> dict[str, Any]:
        """Name and options; `vispco.scorers.get(**d)` makes it again."""
        kind: Any = type(self)
        options = _option_names(kind)
        return {"name": self.name, **{k: v for k, v in vars(self).items() if k in options}}

    def __repr__(self) -> str:
        options = ", ".join(f"{k}={v!r}" for k, v in self.to_dict().items() if k != "name")
        return f"{type(self).__name__}({options})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Scorer) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


@cache
def _option_names(kind: Any) -> frozenset[str]:
    """The arguments of the `__init__` of a class of scorers, and of those that it hands them on to."""
    names = inspect.signature(kind).parameters
    handed_on = any(each.kind is each.VAR_KEYWORD for each in names.values())
    return frozenset(names) | (_option_names(kind.__base__) if handed_on and kind is not Scorer else frozenset())


def top_tokens(scores: Tensor, live: Tensor, counts: Tensor) -> Tensor:
    """The `counts` [B] best-scored live tokens of each sample; ties go to the earlier token. [B, V] -> bool [B, V]."""
    return (ranks(scores, live) < counts[:, None]) & live


SCORERS: Registry[type[Scorer]] = Registry("scorer", "vispco.scorers")
register = SCORERS.register


def get(scorer: str | Scorer | None = None, /, **options: Any) -> Scorer:
    """A scorer by name, with its options; a scorer object is given back as it is."""
    if isinstance(scorer, Scorer):
        return scorer
    name = scorer if scorer is not None else options.pop("name", None)
    if not isinstance(name, str):
        raise InvalidInputError(f"{name!r} was given for a scorer. Give its name, such as 'fastv', or a Scorer.")
    made = SCORERS.get(name)
    try:
        return made(**options)
    except TypeError as error:
        raise InvalidInputError(f"The scorer {name!r} does not take these options: {options}. {error}") from error


def ranks(scores: Tensor, among: Tensor) -> Tensor:
    """Rank of each token among those marked, 0 for the best; unmarked ones come last. [B, V] -> int64 [B, V]."""
    order = scores.float().masked_fill(~among, -torch.inf).sort(dim=-1, descending=True, stable=True).indices
    places = token_index(order.shape[-1], order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, places)
