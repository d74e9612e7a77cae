"""Successive halving over configurations at one budget: many on a few samples, the better ones on more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from vispco.planning.configurations import Configurations, budget_at, level_of, text_floor
from vispco.planning.instruction_groups import group_instructions, left_out_means
from vispco.planning.memory import bounded
from vispco.planning.observation import Observation, join_observations
from vispco.scorers import Chain
from vispco.search.batch import Batch
from vispco.search.joint.choosing import is_gain, useful_anchors
from vispco.search.joint.measuring import Chains
from vispco.search.joint.settings import JointSettings
from vispco.search.joint.space import ChainShapes, typical_counts
from vispco.search.joint.trials import (
    NOTHING,
    MeasuredConfigurations,
    Trial,
    carried_together,
    first_scorer,
    stage_layers,
)
from vispco.search.ranks import Progress, rank_and_size, shared_over_ranks
from vispco.search.table.memory_fit import greedy_anchors

SURE = 2.0  # standard errors that a compensation must gain: the best of several, on few samples
NEAR = 2.0  # the best of another kind of chain is kept as long as it loses no more than so many times the least


class LevelSearch:
    """The search at one level: trials, each measured on as many samples as it deserves."""

    def __init__(
        self, chains: Chains, batches: Sequence[Batch], level: float, settings: JointSettings, progress: Progress
    ) -> None:
        self.chains, self.level, self.settings, self.progress = chains, level, settings, progress
        self.batches = _looks(batches, settings.looks)
        self.size = torch.cat([batch.sizes for batch in batches[:8]]).median(0, keepdim=True).values  # [1, 4]
        self.floor = text_floor(self.size[:, 0], self.size[:, 1], chains.cost)
        self.budget = float(budget_at(level, self.floor))
        self.trials: dict[tuple[Chain, bytes], Trial] = {}
        self.pools: dict[Chain, ChainShapes] = {}

    def scout(self, among: Sequence[Chain]) -> None:
        """A few shapes of each chain that is worth it on the first samples."""
        for chain in [chain for chain in among if self._is_worth_it(chain)] or among:
            pool = self._pool(chain)
            places = pool.spread(self.settings.at(self.settings.shapes, self.budget), self.settings.seed)
            self._add(chain, pool.params[places])
        self._look(list(self.trials.values()), 0)

    def swap(self, chains: Sequence[Chain]) -> None:
        """The best shape under the other chains whose scorers begin at the same layers."""
        best = self.best(1)[0]
        same = [chain.with_compensation(best.chain.compensate) for chain in chains]
        others = [chain for chain in same if chain != best.chain and stage_layers(chain) == stage_layers(best.chain)]
        self._look([trial for chain in others for trial in self._add(chain, best.params[None])], 0)

    @property
    def ranked(self) -> list[tuple[Chain, float]]:
        """The chains that were looked at and their least loss on the first samples, best first."""
        first = sum(map(len, self.batches[0]))
        best: dict[Chain, float] = {}
        for trial in self._seen:
            loss = float(bounded(trial.kl[:first]).mean())
            best[trial.chain] = min(loss, best.get(trial.chain, loss))
        return sorted(best.items(), key=lambda pair: pair[1])

    def take(self, others: Sequence[Trial], look: int = 0) -> None:
        """Measure what other levels found, moved to this one."""
        wanted = [self._add(trial.chain, trial.params[None])[0] for trial in others]
        self._look(wanted, min(look, len(self.batches) - 1))

    def refine(self) -> None:
        """Shapes near the best ones, of their chains."""
        count = self.settings.at(self.settings.neighbours, self.budget)
        leaders = self._shortlist(max(2, count // 2))
        wanted = []
        for chain in dict.fromkeys(trial.chain for trial in leaders):
            own = torch.stack([trial.counts for trial in leaders if trial.chain == chain])
            pool = self._pool(chain)
            near = self._add(chain, pool.params[pool.nearest(own.double() / self.size[:, 1], len(pool))])
            new = [trial for trial in near if trial.looks < 0]
            wanted += new[: max(1, round(count * len(own) / len(leaders)))]
        self._look(wanted, 0)

    def compensate(self) -> None:
        """The best trial with attention given back, by several betas; then the rest of the shortlist by the best of them.

        Where none of them gains more than two standard errors on the same samples, no trial of this level has one: few samples
        would find a beta by chance, and lose by it elsewhere.
        """
        betas = (0.0, *self.settings.compensations)
        if len(betas) == 1:
            return
        best = self.best(1)[0]
        tried = [self._add(best.chain.with_compensation(beta), best.params[None])[0] for beta in betas]
        self._look(tried, 0)
        plain, *others = (self.trials[trial.key] for trial in tried)
        found = min(others, key=lambda trial: trial.loss)
        common = min(len(plain.kl), len(found.kl))
        beta = found.chain.compensate
        if not is_gain(bounded(plain.kl[:common]) - bounded(found.kl[:common]), SURE):
            known = self.chains.candidates
            self.trials = {k: t for k, t in self.trials.items() if not t.chain.compensate or t.chain in known}
            return
        for trial in self._shortlist(self.settings.at(self.settings.shortlist[0], self.budget)):
            self._look(self._add(trial.chain.with_compensation(beta), trial.params[None]), 0)

    def narrow(self) -> None:
        """The better ones on more samples, twice."""
        for look, size in enumerate(self.settings.shortlist, start=1):
            self._look(self._shortlist(self.settings.at(size, self.budget)), look)

    def best(self, count: int) -> list[Trial]:
        """The best trials, first of those that have been measured on the most samples."""
        return sorted(self._seen, key=lambda trial: (-trial.looks, trial.loss))[:count]

    def anchors(self) -> MeasuredConfigurations:
        """The configurations that serve best together, of those that were measured on all looks; then the best others.

        Of the others, the best of each first scorer come first: where few samples see no use of them, more may.
        """
        most = max(trial.looks for trial in self._seen)
        found = carried_together(
            sorted((trial for trial in self._seen if trial.looks == most), key=lambda trial: trial.loss)
        )
        kl = torch.stack([trial.kl for trial in found], dim=-1)
        size = self.settings.anchors
        useful = useful_anchors(kl, self.groups[: len(kl)], size)
        places = list(dict.fromkeys([*useful, *_best_of_each_kind(found), *range(len(found))]))[:size]
        parts = [self._configurations([found[place]]) for place in places]
        return MeasuredConfigurations(Configurations.join(parts), kl[:, places])

    @property
    def _seen(self) -> list[Trial]:
        """The trials that have been measured at all."""
        return [trial for trial in self.trials.values() if trial.looks >= 0]

    def _is_worth_it(self, chain: Chain) -> bool:
        """Whether the first layers of a chain, which may have to be full, take at most half of the level."""
        size = self.chains.objectives[chain].workload(self.size)
        return float(level_of(self.chains.cost.lowest_fraction(size), self.floor)[0]) <= self.level / 2

    def _pool(self, chain: Chain) -> ChainShapes:
        if chain not in self.pools:
            objective = self.chains.objectives[chain]
            self.pools[chain] = ChainShapes.at(objective, self.budget, self.size, servable=self.settings.servable)
        return self.pools[chain]

    def _add(self, chain: Chain, params: Tensor) -> list[Trial]:
        """The trials of shapes [N, P]; new ones are not measured yet."""
        if not len(params):
            return []
        objective = self.chains.objectives[chain]
        counts = typical_counts(objective, params, self.budget, self.size, servable=self.settings.servable)
        found = [
            Trial(chain, own, tokens, -1, NOTHING) for own, tokens in zip(params.double(), counts.long(), strict=True)
        ]
        return [self.trials.setdefault(trial.key, trial) for trial in found]

    def _look(self, wanted: Sequence[Trial], look: int) -> None:
        """Measure trials on the samples up to a look, those that have not seen them."""
        for step in range(look + 1):
            new = list({t.key: t for t in (self.trials[each.key] for each in wanted) if t.looks == step - 1}.values())
            if not new:
                continue
            kl = self._measured(self._configurations(new), self.batches[step])
            for trial, own in zip(new, kl.T, strict=True):
                self.trials[trial.key] = replace(trial, looks=step, kl=torch.cat([trial.kl, own]))

    def _configurations(self, trials: Sequence[Trial]) -> Configurations:
        chains = tuple(dict.fromkeys(trial.chain for trial in trials))
        number = torch.tensor([chains.index(trial.chain) for trial in trials])
        level = torch.full((len(trials),), self.level, dtype=torch.float64)
        return Configurations(chains, number, torch.stack([trial.params for trial in trials]), level)

    def _measured(self, configurations: Configurations, batches: Sequence[Batch]) -> Tensor:
        """KL [M, K] on the samples of batches.

        Every rank measures some of the chains on some of the batches, so that a look at one batch is shared, too.
        """
        ranks = rank_and_size()[1]
        sizes = [len(configurations.places(number)) for number in range(len(configurations.chains))]
        parts = [(place, number) for place in range(len(batches)) for number, size in enumerate(sizes) if size]

        def measure(part: tuple[int, int]) -> Tensor:
            batch, number = batches[part[0]], part[1]
            kl = self.chains.measure_chain(batch, configurations, number, self.level)
            label = f"budgets near {self.budget:.0%}: {len(configurations)} configurations"
            self.progress(ranks * self.budget * kl.numel(), label)
            return kl

        weights = [float(len(batches[place]) * sizes[number]) for place, number in parts]
        kls = [torch.empty(len(batch), len(configurations)) for batch in batches]
        measured = shared_over_ranks(parts, measure, self.chains.objective, weights)
        for (place, number), kl in zip(parts, measured, strict=True):
            kls[place][:, configurations.places(number)] = kl.T
        return torch.cat([torch.empty(0, len(configurations)), *kls])

    def _shortlist(self, size: int) -> list[Trial]:
        """Of the trials that have come furthest: the best, the best of each other first scorer, those that serve together.

        Chains that begin alike lose the same samples, so that a ranking alone would end with several of one kind.
        """
        most = max(trial.looks for trial in self._seen)
        among = sorted((trial for trial in self._seen if trial.looks == most), key=lambda trial: trial.loss)
        near = [place for place in _best_of_each_kind(among) if among[place].loss <= NEAR * among[0].loss]
        loss = bounded(torch.stack([trial.kl for trial in among], dim=-1))
        together = greedy_anchors(loss, left_out_means(loss, self.groups[: len(loss)]), size - size // 4)
        wanted = dict.fromkeys([*near[: max(2, size // 2)], *together, *range(len(among))])
        return [among[place] for place in list(wanted)[:size]]

    @cached_property
    def observation(self) -> Observation:
        """What a predictor sees of the samples of all looks."""
        return join_observations([batch.observation.to("cpu") for part in self.batches for batch in part])

    @cached_property
    def groups(self) -> Tensor:
        """The kind of instruction of each of these samples: int64 [n]."""
        return group_instructions(self.observation)


def _best_of_each_kind(trials: Sequence[Trial]) -> list[int]:
    """Of trials, best first, the places of the best of each first scorer."""
    kinds: dict[str, int] = {}
    for place, trial in enumerate(trials):
        kinds.setdefault(first_scorer(trial.chain), place)
    return list(kinds.values())


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
