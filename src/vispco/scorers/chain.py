"""A chain: which scorer chooses from which layer on. One scorer is a chain of one.

`Chain.of` reads all the ways to write one down:

    "fastv"                                      one scorer
    "divprune+fastv"                             the first before the language model, the second from layer 1 on
    "sparsevlm(recycle=true)@4+random@20"        with options, and from given layers on
    {0: "divprune", 3: "fastv", 20: "random"}    the same as a mapping
    "equal:divprune+fastv"                       every picture of a prompt keeps the same number (see `allocation`)
    "compensate=0.75:divprune+fastv"             text attends more to the visual tokens that are left (see `Chain`)
    "divprune@tower.4+divprune+fastv"            the first inside the vision tower, from its block 4 on
    {"tower.4": "divprune", 0: "divprune", 6: "fastv"}
"""

from __future__ import annotations

import functools
import json
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self, TypeAlias, Union

from vispco.core.errors import InvalidInputError
from vispco.cost.workload import Site
from vispco.scorers.allocation import ALLOCATIONS, SCORE, Allocated, check_allocation
from vispco.scorers.base import Scorer, VisionNeeds, get

ChainLike: TypeAlias = Union[str, Scorer, "Chain", Mapping[Any, Any], Sequence[Mapping[str, Any]]]
"""Whatever `Chain.of` reads."""

_HOW_TO_WRITE = (
    "Write 'fastv', 'divprune+fastv', 'sparsevlm(recycle=true)@4+random@20', 'divprune@tower.2+fastv' from block 2 of the vision "
    "tower on, or a mapping from layer to scorer such as {0: 'divprune', 3: 'fastv'}."
)
COMPENSATE = "compensate="
_LEAST_COMPENSATION, _MOST_COMPENSATION = (
    -1.0,
    2.0,
)  # beyond them logits overflow half precision, or nothing else is seen
TOWER = "tower."  # before the number of a block, where a layer may stand
_PLACE = re.compile(rf"({re.escape(TOWER)})?(\d+)")
_PART = re.compile(rf"^\s*([A-Za-z][\w.-]*)\s*(?:\((.*)\))?\s*(?:@\s*({_PLACE.pattern}))?\s*$", re.DOTALL)
Place: TypeAlias = tuple[bool, int]
"""Whether it is inside the vision tower, and the block or layer."""


@dataclass(frozen=True)
class Chain:
    """Scorers by depth: each is in charge from its layer on, until the next one takes over.

    stages: (layer, scorer) pairs, layers growing. Before the first stage nothing leaves.
    allocation: how a sample's count is divided over its pictures; see `vispco.scorers.allocation`.
    compensate: beta. Pruned keys are missed in the softmax; where K of a picture's N visual tokens are left, text attends to
        them with logits raised by beta * log(N / K); 0 is off. See `vispco.engine.compensation`.
    tower: (block, scorer) pairs inside the vision tower, blocks growing; see `vispco.engine.tower_cut`.

    What follows from them: in_charge: the stages, each of which divides its count as the chain says. earliest_layer: the first
    that may see fewer tokens than there are. taps_attention: whether attention calls are seen at all, of the layer before, or of
    the one that is entered. needs_vision: all that any of the scorers reads of the vision tower. rebuilds: see `Scorer.rebuilds`.
    """

    stages: tuple[tuple[int, Scorer], ...]
    allocation: str = SCORE
    compensate: float = 0.0
    tower: tuple[tuple[int, Scorer], ...] = ()
    scorers: tuple[Scorer, ...] = field(init=False, repr=False, compare=False)
    in_charge: tuple[tuple[int, Scorer], ...] = field(init=False, repr=False, compare=False)
    earliest_layer: int = field(init=False, repr=False, compare=False)
    needs_attention: bool = field(init=False, repr=False, compare=False)
    taps_attention: bool = field(init=False, repr=False, compare=False)
    reads_question: bool = field(init=False, repr=False, compare=False)
    merges: bool = field(init=False, repr=False, compare=False)
    decides_count: bool = field(init=False, repr=False, compare=False)
    rebuilds: bool = field(init=False, repr=False, compare=False)
    needs_vision: VisionNeeds = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_allocation(self.allocation)
        object.__setattr__(self, "compensate", check_compensation(self.compensate))
        if not self.stages:
            raise InvalidInputError(f"An empty chain of scorers was given. {_HOW_TO_WRITE}")
        for layer, scorer in self.stages:
            if layer < scorer.earliest_layer:
                raise InvalidInputError(
                    f"The scorer {scorer.name!r} was put at layer {layer}, but it can choose from layer "
                    f"{scorer.earliest_layer} on: it reads what the layer before has computed. Put it there or deeper."
                )
        for where, stages in (("layer", self.stages), ("block", self.tower)):
            for (before, _), (after, scorer) in pairwise(stages):
                if after <= before:
                    raise InvalidInputError(
                        f"The scorer {scorer.name!r} was put at {where} {after}, after one at {where} {before}. {where.capitalize()}s must grow."
                    )
        for block, scorer in self.tower:
            scorer.check_tower(block)
        scorers, given = tuple(scorer for _, scorer in self.stages), self.stages
        if self.allocation != SCORE:
            given = tuple((layer, Allocated(scorer, self.allocation)) for layer, scorer in self.stages)
        found: dict[str, Any] = {"scorers": scorers, "in_charge": given, "earliest_layer": self.stages[0][0]}
        for name in ("needs_attention", "reads_question", "merges", "decides_count"):
            found[name] = any(getattr(each, name) for each in scorers)
        found["rebuilds"] = any(each.rebuilds for _, each in self.tower)
        found["taps_attention"] = any(each.needs_attention or each.needs_entering for each in scorers)
        found["needs_vision"] = functools.reduce(operator.or_, (each.needs_vision for each in scorers), VisionNeeds())
        for name, value in found.items():
            object.__setattr__(self, name, value)
        if len({scorer.rebuilds for _, scorer in self.tower}) > 1:
            raise InvalidInputError(f"{self.name} was given. Inside the vision tower all scorers rebuild, or none.")

    @classmethod
    def of(cls, given: ChainLike) -> Chain:
        """A chain from anything that names one; see the top of this file."""
        if isinstance(given, Chain):
            return given
        if isinstance(given, Scorer):
            return cls(((given.earliest_layer, given),))
        if isinstance(given, str):
            prefix, colon, rest = (part.strip() for part in given.partition(":"))
            if colon and prefix in ALLOCATIONS:
                return cls.of(rest).with_allocation(prefix)
            if colon and prefix.startswith(COMPENSATE):
                return cls.of(rest).with_compensation(prefix.removeprefix(COMPENSATE))
            return cls._of_parts([_parse_part(part, given) for part in split_outside(given, "+")])
        if isinstance(given, Sequence):
            return cls._of_parts([_read_part(part) for part in given])
        if not isinstance(given, Mapping):
            raise InvalidInputError(f"{given!r} was given for a scorer. {_HOW_TO_WRITE}")
        if "scorers" in given:
            chain = cls.of(list(given["scorers"])).with_allocation(given.get("allocation", SCORE))
            return chain.with_compensation(given.get("compensate", 0.0))
        if "name" in given:
            return cls.of([given])
        stages: list[tuple[Place | None, Scorer]] = []
        for layer, scorer in sorted(given.items(), key=lambda item: (not _place(item[0])[0], _place(item[0])[1])):
            inner = cls.of(scorer)
            if len(inner.stages) != 1 or inner.tower:
                raise InvalidInputError(
                    f"{scorer!r} was given at layer {layer}; give one scorer there. {_HOW_TO_WRITE}"
                )
            stages.append((_place(layer), inner.stages[0][1]))
        return cls._of_parts(stages)

    @classmethod
    def _of_parts(cls, parts: Sequence[tuple[Place | None, Scorer]]) -> Chain:
        """Parts without a layer begin as early as they can, after the part before.

        The last scorer of the tower goes on in the language model where no other is named; divprune, where it cannot.
        """
        stages: list[tuple[int, Scorer]] = []
        tower: list[tuple[int, Scorer]] = []
        for place, scorer in parts:
            if place is not None and place[0]:
                if stages:
                    raise InvalidInputError(
                        f"The scorer {scorer.name!r} was put into the vision tower behind one of the language model. Name those "
                        "of the tower first."
                    )
                tower.append((place[1], scorer))
                continue
            first = max(scorer.earliest_layer, stages[-1][0] + 1 if stages else 0)
            stages.append((first if place is None else place[1], scorer))
        if tower and not stages:
            last = tower[-1][1]
            last = get("divprune") if last.needs_vision or last.merges or last.rebuilds else last
            stages.append((last.earliest_layer, last))
        return cls(tuple(stages), tower=tuple(tower))

    def with_allocation(self, allocation: str) -> Self:
        """The same scorers, with a sample's tokens divided over its pictures in this way."""
        return replace(self, allocation=allocation)

    def with_compensation(self, beta: Any) -> Self:
        """The same scorers, with attention given back to the tokens that are left."""
        return replace(self, compensate=beta)

    def for_model(self, model: Any) -> Chain:
        """The chain that runs on a model; see `Scorer.for_model`."""
        found = tuple((layer, scorer.for_model(model)) for layer, scorer in self.stages)
        same = all(new is old for (_, new), (_, old) in zip(found, self.stages, strict=True))
        return self if same else replace(self, stages=found)

    def tower_scorer_at(self, block: int) -> Scorer | None:
        """The scorer that chooses the cells that enter a block of the vision tower; None before the first stage."""
        return next((scorer for first, scorer in reversed(self.tower) if first <= block), None)

    def scorer_at(self, layer: int) -> Scorer | None:
        """The scorer that chooses the tokens that enter a layer; None before the first stage."""
        return next((scorer for first, scorer in reversed(self.in_charge) if first <= layer), None)

    def site_at(self, layer: int) -> Site:
        """Where the tokens leave that do not enter a layer."""
        scorer = self.scorer_at(layer)
        return "entry" if scorer is None else scorer.site

    def sites(self, num_layers: int) -> Site | tuple[Site, ...]:
        """Where tokens leave, for each layer boundary; one word where all are the same."""
        if len({scorer.site for scorer in self.scorers}) == 1:
            return self.scorers[0].site
        return tuple(self.site_at(layer) for layer in range(num_layers))

    @property
    def name(self) -> str:
        """As a user writes it, without options: 'divprune+fastv'."""
        inside = [f"{scorer.name}@{TOWER}{block}" for block, scorer in self.tower]
        return self._prefix + "+".join([*inside, *(scorer.name for scorer in self.scorers)])

    @property
    def _prefix(self) -> str:
        divided = "" if self.allocation == SCORE else f"{self.allocation}:"
        return divided + (f"{COMPENSATE}{self.compensate:g}:" if self.compensate else "")

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; `Chain.of` makes it again. One scorer at its earliest layer is that scorer's own dictionary."""
        layer, first = self.stages[0]
        options: dict[str, Any] = {} if self.allocation == SCORE else {"allocation": self.allocation}
        options |= {"compensate": self.compensate} if self.compensate else {}
        if len(self.stages) == 1 and layer == first.earliest_layer and not options and not self.tower:
            return first.to_dict()
        places = [*((f"{TOWER}{block}", scorer) for block, scorer in self.tower), *self.stages]
        return {**options, "scorers": [{"layer": place, **scorer.to_dict()} for place, scorer in places]}

    def __str__(self) -> str:
        """As `Chain.of` reads it again."""
        parts, before = [f"{_written(scorer)}@{TOWER}{block}" for block, scorer in self.tower], -1
        for layer, scorer in self.stages:
            default = max(scorer.earliest_layer, before + 1)
            parts.append(f"{_written(scorer)}{'' if layer == default else f'@{layer}'}")
            before = layer
        return self._prefix + "+".join(parts)


def _written(scorer: Scorer) -> str:
    """A scorer with the options that are not its defaults, as `Chain.of` reads it."""
    usual = get(scorer.name).to_dict()
    inside = ",".join(f"{k}={json.dumps(v)}" for k, v in scorer.to_dict().items() if k != "name" and usual.get(k) != v)
    return f"{scorer.name}({inside})" if inside else scorer.name


def _place(given: Any) -> Place:
    """A layer (6), or a block of the vision tower ('tower.4')."""
    found = _PLACE.fullmatch(str(given).strip())
    if found is None or isinstance(given, bool):
        raise InvalidInputError(f"{given!r} was given as the layer of a scorer. {_HOW_TO_WRITE}")
    return found[1] is not None, int(found[2])


def with_options(chain: Chain, allocation: str | None, compensate: float | None) -> Chain:
    """A chain with what is given of its options; None leaves what it says itself."""
    chain = chain if allocation is None else chain.with_allocation(allocation)
    return chain if compensate is None else chain.with_compensation(compensate)


def check_compensation(beta: Any) -> float:
    """Parse a compensation; refuse anything that is not a number in the allowed range."""
    try:
        value = float(beta)
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(beta, bool) or not _LEAST_COMPENSATION <= value <= _MOST_COMPENSATION:
        raise InvalidInputError(
            f"compensate={beta!r} was given. It is a number from {_LEAST_COMPENSATION:g} to {_MOST_COMPENSATION:g}, such as 0.75, by "
            "which the log of (visual tokens shown / left) is multiplied; 0 is off."
        )
    return value


def split_outside(text: str, at: str) -> list[str]:
    """Cut at a letter outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == at and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _parse_part(part: str, whole: str) -> tuple[Place | None, Scorer]:
    """'sparsevlm(recycle=true, seed=3)@4'. Values of options are JSON (true, 3, 0.5, [1, 2], "x") or plain words."""
    match = _PART.match(part)
    if match is None:
        raise InvalidInputError(f"{part.strip()!r} in {whole!r} is not a scorer. {_HOW_TO_WRITE}")
    name, inside, place = match.groups()[:3]
    options: dict[str, Any] = {}
    for pair in filter(str.strip, split_outside(inside or "", ",")):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if not equals or not key.isidentifier():
            raise InvalidInputError(f"{pair.strip()!r} in {whole!r} is not an option. Write name(option=value, ...).")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = {"True": True, "False": False, "None": None}.get(value, value)
    return (None if place is None else _place(place)), get(name, **options)


def _read_part(part: Any) -> tuple[Place | None, Scorer]:
    if isinstance(part, Scorer):
        return None, part
    if not isinstance(part, Mapping) or not isinstance(part.get("name"), str):
        raise InvalidInputError(f"{part!r} was given for a scorer. {_HOW_TO_WRITE}")
    options = {key: value for key, value in part.items() if key not in ("name", "layer")}
    layer = part.get("layer")
    return (None if layer is None else _place(layer)), get(part["name"], **options)
