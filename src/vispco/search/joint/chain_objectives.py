"""Candidate chains on one model: the KL of their configurations at a level, on one bill."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vispco.kernels import Kernel
from vispco.pruner.configurations import Configurations, budget_at, text_floor
from vispco.scorers import Chain
from vispco.search.batch import Batch
from vispco.search.joint.space import joint_kernel
from vispco.search.objective import Objective
from vispco.search.shape_pool import measure_shapes

_INFEASIBLE_KL = 50.0  # more than any measured KL, and finite, so that means can be taken
_ROUNDING = 1e-9


class ChainObjectives:
    """The candidate chains on one model: an objective for each, with one bill and one journal."""

    def __init__(self, objective: Objective, chains: Sequence[Chain], kernel: Kernel | None = None) -> None:
        self.cost, self.kernel = objective.cost, kernel or joint_kernel()
        self.objective, self.candidates = objective, frozenset(chains)
        self.objectives = {chain: objective.with_chain(chain) for chain in chains}

    def objective_of(self, chain: Chain) -> Objective:
        """The objective of a chain, which may be a candidate with other options."""
        if chain not in self.objectives:
            self.objectives[chain] = self.objective.with_chain(chain)
        return self.objectives[chain]

    def measure(self, batch: Batch, configurations: Configurations, level: float) -> Tensor:
        """KL [K, B] of configurations at a level; those with the same counts are run once.

        A chain that keeps its first layers full may exceed a sample's budget: then its KL is `_INFEASIBLE_KL`.
        """
        kl = torch.zeros(len(configurations), len(batch))
        for number in range(len(configurations.chains)):
            index = configurations.places(number)
            if len(index):
                kl[index] = self.measure_chain(batch, configurations, number, level)
        return kl

    def measure_chain(self, batch: Batch, configurations: Configurations, number: int, level: float) -> Tensor:
        """The same of the configurations of one chain, in their order: KL [k, B]."""
        objective = self.objective_of(configurations.chains[number])
        budgets = budget_at(level, text_floor(batch.num_text, batch.num_visual, self.cost))
        params = configurations.params[configurations.places(number)]
        kl = measure_shapes(objective, batch, self.kernel, params, budgets, warn=False)
        infeasible = self.cost.lowest_fraction(objective.workload(batch.sizes)) > budgets + _ROUNDING
        return torch.where(infeasible, _INFEASIBLE_KL, kl.float().cpu())
