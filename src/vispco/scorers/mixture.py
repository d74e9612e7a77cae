"""Different chains for different samples of one batch.

`MixedChain.of(["divprune+fastv", "cdpruner"])` behaves as one chain. A plan says which of its chains each sample follows
(`TokenPlan.groups`), and at every layer each sample's own scorer chooses. A batch can carry chains whose tokens leave at
the same kind of place. It cannot carry chains that merge tokens or decide counts by themselves: those change what the whole
batch is handed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from vispco.core.errors import InvalidInputError
from vispco.scorers.base import Scorer, Selection
from vispco.scorers.chain import Chain, ChainLike
from vispco.scorers.context import ScoringContext


class _Mixture(Scorer):
    """One stage of a mixed chain: the scorers in charge, one for each chain; None where a chain has not begun."""

    name = "mixture"

    def __init__(self, parts: Sequence[Scorer | None]) -> None:
        self.parts = tuple(parts)
        self._scorers = [part for part in parts if part is not None]
        for need in ("attention", "entering", "hidden", "previous_hidden", "text_hidden"):
            setattr(self, f"needs_{need}", any(getattr(scorer, f"needs_{need}") for scorer in self._scorers))
        self.needs_vision = functools.reduce(operator.or_, (scorer.needs_vision for scorer in self._scorers))
        self.site = self._scorers[0].site
        self._numbers: dict[Scorer, set[int]] = {}  # chains that differ in other things may have the same scorer here
        for number, part in enumerate(parts):
            if part is not None:
                self._numbers.setdefault(part, set()).add(number)

    @property
    def reads_question(self) -> bool:
        return any(scorer.reads_question for scorer in self._scorers)

    @property
    def earliest_layer(self) -> int:
        return max(scorer.earliest_layer for scorer in self._scorers)

    def select(self, context: ScoringContext) -> Selection:
        """Each sample's tokens by its own scorer. A scorer that no sample waits for does not run."""
        keep, groups = context.live, context.groups
        if groups is None:
            raise InvalidInputError("A mixed chain needs to know which chain each sample follows: `TokenPlan.groups`.")
        for part, numbers in self._numbers.items():
            if numbers.isdisjoint(groups):
                continue
            mine = torch.tensor([group in numbers for group in groups]).to(keep.device, non_blocking=True)
            counts = torch.where(mine, context.counts, 0)
            host = tuple(n if group in numbers else 0 for n, group in zip(context.host_counts, groups, strict=True))
            chosen = part.select(replace(context, counts=counts, host_counts=host))
            keep = torch.where(mine[:, None], chosen.keep, keep)
        return Selection(keep)


@dataclass(frozen=True)
class MixedChain(Chain):
    """Several chains as one. `stages` follows from `chains`."""

    chains: tuple[Chain, ...] = ()

    @classmethod
    def of_chains(cls, given: Sequence[ChainLike]) -> Chain:
        """The chain of several; of one, that chain itself."""
        chains = tuple(Chain.of(each) for each in given)
        if len(chains) == 1:
            return chains[0]
        for chain in chains:
            if chain.merges or chain.decides_count:
                raise InvalidInputError(
                    f"The chain {chain.name!r} merges tokens or decides counts by itself, so it cannot share a batch with "
                    "other chains. Use it alone."
                )
        sites = {scorer.site for chain in chains for scorer in chain.scorers}
        if len(sites) > 1:
            raise InvalidInputError(
                f"The chains {', '.join(chain.name for chain in chains)} have tokens leave at two kinds of places (the entry "
                "of a layer, and between attention and feed-forward network), which one batch cannot do. Use chains of one "
                "kind; fitprune(site=entry) leaves at the entry."
            )
        layers = sorted({layer for chain in chains for layer, _ in chain.stages})
        stages = tuple((layer, _Mixture([chain.scorer_at(layer) for chain in chains])) for layer in layers)
        return cls(stages, chains=chains, tower=chains[0].tower)

    def with_allocation(self, allocation: str) -> Chain:  # type: ignore[override]
        return MixedChain.of_chains([chain.with_allocation(allocation) for chain in self.chains])

    def with_compensation(self, beta: Any) -> Chain:  # type: ignore[override]
        return MixedChain.of_chains([chain.with_compensation(beta) for chain in self.chains])

    @property
    def name(self) -> str:
        return " | ".join(chain.name for chain in self.chains)

    def to_dict(self) -> dict[str, Any]:
        return {"mixed": [chain.to_dict() for chain in self.chains]}

    def __str__(self) -> str:
        return " | ".join(map(str, self.chains))


def batch_kind(chain: Chain) -> object:
    """Chains of the same kind can share a batch: their tokens leave at the same sites.

    A chain that merges or decides counts by itself is of a kind of its own.
    """
    return chain if chain.merges or chain.decides_count else frozenset(scorer.site for scorer in chain.scorers)


def chains_of(chain: Chain) -> tuple[Chain, ...]:
    """The chains that samples of a batch may follow."""
    return chain.chains if isinstance(chain, MixedChain) else (chain,)
