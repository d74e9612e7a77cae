"""Successive halving over configurations at one budget: many on a few samples, the better ones on more."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.cost import BudgetWarning, Workload
from vispco.planning.configurations import Configurations, Request, budget_at, counts_by_chain, text_floor
from vispco.planning.observation import join_observations
from vispco.planning.similarity import other_sample_weights
from vispco.scorers import Chain
from vispco.search.batch import Batch
from vispco.search.joint.settings import JointSettings
from vispco.search.joint.space import ChainShapes, joint_kernel
from vispco.search.objective import Objective
from vispco.search.ranks import Progress, rank_and_size, shared_over_ranks
from vispco.search.table.memory_fit import greedy_anchors

TOO_DEAR = 50.0  # KL: more than any measured one, and finite, so that means can be taken
ROUNDING = 1e-9


class Chains:
    """The candidate chains on one model: an objective for each, with one bill and one journal."""

    def __init__(self, objective: Objective, chains: Sequence[Chain], *, servable: bool = False) -> None:
        self.cost, self.kernel = objective.cost, joint_kernel(servable=servable)
        self.objective = objective
        self.objectives = {chain: objective.with_chain(chain) for chain in chains}

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
            batch.num_text.repeat(K),
            batch.num_visual.repeat(K),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            counts = counts_by_chain(request, (chain,), self.kernel, self.cost, fill=False).view(K, B, -1)
        unique, place = torch.unique(counts.flatten(1), dim=0, return_inverse=True)
        kl = self.objectives[chain].measure_kl(batch, unique.view(-1, *counts.shape[1:]))
        size = self.objectives[chain].workload(batch.num_text, batch.num_visual)
        dear = self.cost.lowest_fraction(size) > budgets + ROUNDING
        return torch.where(dear, TOO_DEAR, kl[place].float().cpu())


@dataclass(frozen=True, eq=False)
class MeasuredConfigurations:
    """Configurations of one level, and their KL [samples, K] on the first samples."""

    configurations: Configurations
    kl: Tensor

    def take(self, index: Sequence[int]) -> MeasuredConfigurations:
        return MeasuredConfigurations(self.configurations.take(index), self.kl[:, list(index)])


class LevelSearch:
    """The search at one level."""

    def __init__(
        self, chains: Chains, batches: Sequence[Batch], level: float, settings: JointSettings, progress: Progress
    ) -> None:
        self.chains, self.level, self.settings, self.progress = chains, level, settings, progress
        self.batches = _looks(batches, settings.looks)
        sizes = [torch.cat([getattr(b, name) for b in batches[:8]]) for name in ("num_text", "num_visual")]
        self.size = Workload(sizes[0].median()[None], sizes[1].median()[None])
        self.budget = float(budget_at(level, text_floor(self.size.num_text, self.size.num_visual, chains.cost)))
        self.pools: dict[Chain, ChainShapes] = {}
        self.seen: dict[Chain, list[int]] = {}

    def first_look(self, among: Sequence[Chain]) -> MeasuredConfigurations:
        """A few shapes of each chain on the first samples."""
        parts = []
        for chain in among:
            pool = self.pool(chain)
            self.seen[chain] = pool.spread(self.settings.shapes, self.settings.seed)
            parts.append(self._configurations(chain, self.seen[chain]))
        return self._measured(Configurations.join(parts), self.batches[0])

    def finish(self, first: MeasuredConfigurations) -> MeasuredConfigurations:
        """From the first look to the anchors: neighbours of the best, then two more looks on more samples."""
        settings, means = self.settings, first.kl.mean(0)
        leaders = means.argsort(stable=True)[: max(2, settings.neighbours // 4)].tolist()
        found = first
        added = self._neighbours(first.configurations, leaders)
        if added is not None:
            near = self._measured(added, self.batches[0])
            found = MeasuredConfigurations(
                Configurations.join([first.configurations, added]), torch.cat([first.kl, near.kl], dim=1)
            )
        for look, size in enumerate(settings.shortlist, start=1):
            found = found.take(_shortlist(found.kl, self._batches_until(look - 1), size))
            more = self._measured(found.configurations, self.batches[look])
            found = MeasuredConfigurations(found.configurations, torch.cat([found.kl, more.kl]))
        found = _one_kind(found)
        chosen = greedy_anchors(found.kl, _left_out(found.kl, self._batches_until(2)), settings.anchors)
        return found.take(chosen)

    def pool(self, chain: Chain) -> ChainShapes:
        if chain not in self.pools:
            objective = self.chains.objectives[chain]
            self.pools[chain] = ChainShapes.at(objective, self.budget, self.size, servable=self.settings.servable)
        return self.pools[chain]

    def _neighbours(self, configurations: Configurations, leaders: Sequence[int]) -> Configurations | None:
        """Shapes near the best ones, of the same chains, that have not been measured; more for a chain with more leaders."""
        parts = []
        for number, chain in enumerate(configurations.chains):
            own = [place for place in leaders if int(configurations.chain[place]) == number]
            if not own:
                continue
            pool, seen = self.pool(chain), self.seen[chain]
            order = (configurations.chain == number).nonzero()[:, 0].tolist()  # as in `seen`
            good = [seen[order.index(place)] for place in own]
            near = pool.nearest(good, seen, round(self.settings.neighbours * len(own) / len(leaders)))
            if near:
                parts.append(self._configurations(chain, near))
                self.seen[chain] = [*seen, *near]
        return Configurations.join(parts) if parts else None

    def _configurations(self, chain: Chain, places: Sequence[int]) -> Configurations:
        params = self.pool(chain).params[list(places)]
        level = torch.full((len(params),), self.level, dtype=torch.float64)
        return Configurations((chain,), torch.zeros(len(params), dtype=torch.int64), params, level)

    def _measured(self, configurations: Configurations, batches: Sequence[Batch]) -> MeasuredConfigurations:
        """Every rank measures some of the chains on some of the batches, so that a look at one batch is shared, too."""
        ranks = rank_and_size()[1]
        sizes = [len(configurations.places(number)) for number in range(len(configurations.chains))]
        parts = [(place, number) for place in range(len(batches)) for number, size in enumerate(sizes) if size]

        def measure(part: tuple[int, int]) -> Tensor:
            batch, number = batches[part[0]], part[1]
            kl = self.chains.measure_chain(batch, configurations, number, self.level)
            told = f"budgets near {self.budget:.0%}: {len(configurations)} configurations"
            self.progress(ranks * self.budget * kl.numel(), told)
            return kl

        weights = [float(len(batches[place]) * sizes[number]) for place, number in parts]
        kls = [torch.empty(len(batch), len(configurations)) for batch in batches]
        for (place, number), kl in zip(
            parts, shared_over_ranks(parts, measure, self.chains.objective, weights), strict=True
        ):
            kls[place][:, configurations.places(number)] = kl.T
        return MeasuredConfigurations(configurations, torch.cat([torch.empty(0, len(configurations)), *kls]))

    def _batches_until(self, look: int) -> list[Batch]:
        return [batch for part in self.batches[: look + 1] for batch in part]


def best_chains(measured: MeasuredConfigurations, count: int) -> list[Chain]:
    """The chains whose best configuration has the least mean KL, best first."""
    means, chain = measured.kl.mean(0), measured.configurations.chain
    best = [(float(means[chain == n].min()), each) for n, each in enumerate(measured.configurations.chains)]
    return [each for _, each in sorted(best, key=lambda pair: pair[0])[:count]]


def only_chains(measured: MeasuredConfigurations, chains: Sequence[Chain]) -> MeasuredConfigurations:
    """What was measured of some chains."""
    wanted = {n for n, chain in enumerate(measured.configurations.chains) if chain in chains}
    return measured.take([k for k, n in enumerate(measured.configurations.chain.tolist()) if n in wanted])


def _looks(batches: Sequence[Batch], sizes: Sequence[int]) -> list[list[Batch]]:
    """The batches that each look adds, so that it sees at least so many samples, if there are as many."""
    found: list[list[Batch]] = []
    used = samples = 0
    for size in sizes:
        part = []
        while used < len(batches) and samples < size:
            part.append(batches[used])
            samples += len(part[-1])
            used += 1
        found.append(part)
    return found


def _one_kind(found: MeasuredConfigurations) -> MeasuredConfigurations:
    """Configurations that one batch can carry: of those whose tokens leave at one kind of place, the better kind.

    The kind is that of the best configuration: see `vispco.scorers.mixture`. A chain that merges or decides counts by
    itself is alone.
    """
    best = int(found.kl.mean(0).argmin())
    chains = found.configurations.chains

    def kind(place: int) -> object:
        chain = chains[int(found.configurations.chain[place])]
        return chain if chain.merges or chain.decides_count else frozenset(scorer.site for scorer in chain.scorers)

    return found.take([place for place in range(len(found.configurations)) if kind(place) == kind(best)])


def _left_out(kl: Tensor, batches: Sequence[Batch]) -> Tensor:
    """KL [M, N] of each sample as estimated from the other samples that are similar to it."""
    return other_sample_weights(join_observations([batch.observation.to("cpu") for batch in batches])) @ kl


def _shortlist(kl: Tensor, batches: Sequence[Batch], size: int) -> list[int]:
    """Columns of kl [M, N]: one half by their mean, the other by how well they serve together."""
    best = kl.mean(0).argsort(stable=True)[: size - size // 2].tolist()
    together = greedy_anchors(kl, _left_out(kl, batches), size)
    return sorted([*best, *(place for place in together if place not in best)][:size])
