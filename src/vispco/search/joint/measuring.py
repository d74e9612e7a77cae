"""Candidate chains on one model: the KL of their configurations at a level, on one bill."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from vispco.cost import BudgetWarning
from vispco.planning.configurations import Configurations, Request, budget_at, counts_by_chain, text_floor
from vispco.scorers import Chain
from vispco.search.batch import Batch
from vispco.search.joint.space import joint_kernel
from vispco.search.objective import Objective

TOO_DEAR = 50.0  # KL: more than any measured one, and finite, so that means can be taken
ROUNDING = 1e-9


class _Objectives(dict[Chain, Objective]):
    """The objective of each chain, made when it is first asked for: a chain may come with other options."""

    def __init__(self, first: Objective) -> None:
        super().__init__()
        self.first = first

    def __missing__(self, chain: Chain) -> Objective:
        found = self[chain] = self.first.with_chain(chain)
        return found


class Chains:
    """The candidate chains on one model: an objective for each, with one bill and one journal."""

    def __init__(self, objective: Objective, chains: Sequence[Chain], *, servable: bool = False) -> None:
        self.cost, self.kernel = objective.cost, joint_kernel(servable=servable)
        self.objective, self.candidates = objective, frozenset(chains)
        self.objectives = _Objectives(objective)
        for chain in chains:
            self.objectives[chain]

    def measure(self, batch: Batch, configurations: Configurations, level: float) -> Tensor:
        """KL [K, B] of configurations at a level; those that come to the same tokens are run once.

        A chain that keeps its first layers full may be too dear for a sample: then it has the KL `TOO_DEAR` on it.
        """
        found = torch.zeros(len(configurations), len(batch))
        for number in range(len(configurations.chains)):
            places = configurations.places(number)
            if len(places):
                found[places] = self.measure_chain(batch, configurations, number, level)
        return found

    def measure_chain(self, batch: Batch, configurations: Configurations, number: int, level: float) -> Tensor:
        """The same of the configurations of one chain, in their order: KL [k, B]."""
        chain, places = configurations.chains[number], configurations.places(number)
        K, B = len(places), len(batch)
        budgets = budget_at(level, text_floor(batch.num_text, batch.num_visual, self.cost))
        request = Request(
            configurations.params[places][:, None].expand(K, B, -1).reshape(K * B, -1),
            budgets.repeat(K),
            torch.zeros(K * B, dtype=torch.int64),
            batch.sizes.repeat(K, 1),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            counts = counts_by_chain(request, (chain,), self.kernel, self.cost, fill=False).view(K, B, -1)
        unique, place = torch.unique(counts.flatten(1), dim=0, return_inverse=True)
        kl = self.objectives[chain].measure_kl(batch, unique.view(-1, *counts.shape[1:]))
        size = self.objectives[chain].workload(batch.sizes)
        dear = self.cost.lowest_fraction(size) > budgets + ROUNDING
        return torch.where(dear, TOO_DEAR, kl[place].float().cpu())
