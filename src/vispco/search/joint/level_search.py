"""Successive halving over configurations at one level: many trials on few samples, the better ones on more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from vispco.pruner.configurations import Configurations, budget_at, level_of, text_floor
from vispco.pruner.kernel_regression import saturating_loss
from vispco.pruner.observation import Observation, join_observations
from vispco.scorers import Chain
from vispco.scorers.mixture import batch_kind
from vispco.search.batch import Batch
from vispco.search.calibration_batches import batch_lengths
from vispco.search.joint.anchor_selection import greedy_anchors, is_gain, select_anchors
from vispco.search.joint.chain_objectives import ChainObjectives
from vispco.search.joint.instruction_groups import group_instructions, leave_one_out_means
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.joint.space import chain_shapes
from vispco.search.ranks import Progress, rank_and_size, shared_over_ranks
from vispco.search.shape_pool import ShapePool, median_size, typical_counts

_GAIN_ERRORS = 1.0  # standard errors that a compensation must gain on samples by which it was not chosen
_MAX_LOSS_RATIO = 2.0  # of a trial to the best one: up to it, the best trial of each other first scorer is promoted
_UNMEASURED = torch.empty(0)
_ENTRY = frozenset({"entry"})  # the kind of most chains


@dataclass(frozen=True, eq=False)
class _Trial:
    """One configuration at a level. counts: [L], its tokens for a sample of the typical size.

    rung: the last one that it was measured on, -1 for none. kl: on the samples up to there.
    """

    chain: Chain
    params: Tensor
    counts: Tensor
    rung: int = -1
    kl: Tensor = _UNMEASURED

    @property
    def key(self) -> tuple[Chain, bytes]:
        """Trials with the same key prune the same tokens."""
        return self.chain, self.counts.numpy().tobytes()

    @property
    def loss(self) -> float:
        return float(saturating_loss(self.kl).mean())


class LevelSearch:
    """The search at one level: trials, of which the better ones are promoted to rungs with more samples."""

    def __init__(
        self,
        chains: ChainObjectives,
        batches: Sequence[Batch],
        level: float,
        settings: JointSettings,
        progress: Progress,
    ) -> None:
        self.chains, self.level, self.settings, self.progress = chains, level, settings, progress
        self.batches, self.lengths = batches, batch_lengths(batches)
        self.rungs: list[
            range
        ] = []  # the places of the batches that each adds, so that it sees at least so many samples
        used = 0
        for samples in settings.rungs:
            start = used
            while used < len(self.lengths) and sum(self.lengths[:used]) < samples:
                used += 1
            self.rungs.append(range(start, used))
        self.size = median_size(batches[:8])  # [1, 4]
        self.floor = text_floor(self.size[:, 0], self.size[:, 1], chains.cost)
        self.budget = float(budget_at(level, self.floor))
        self.trials: dict[tuple[Chain, bytes], _Trial] = {}
        self.pools: dict[Chain, ShapePool] = {}

    def measure_chains(self, among: Sequence[Chain]) -> None:
        """Measure a few shapes of each chain on the first rung, unless its full first layers take most of the level."""
        affordable = []
        for chain in among:
            full = self.chains.cost.lowest_fraction(self.chains.objective_of(chain).workload(self.size))
            if float(level_of(full, self.floor)[0]) <= self.level / 2:
                affordable.append(chain)
        for chain in affordable or among:
            pool = self._pool(chain)
            places = pool.spread(self.settings.at(self.settings.shapes, self.budget), seed=self.settings.seed)
            self._add(chain, pool.params[places])
        self._measure_to(list(self.trials.values()), 0)

    def try_chains(self, chains: Sequence[Chain]) -> None:
        """Measure the best shape under the other chains whose scorers begin at the same layers."""
        best = self.best(1)[0]
        layers = [layer for layer, _ in best.chain.stages]
        same = [chain.with_compensation(best.chain.compensate) for chain in chains]
        others = [chain for chain in same if chain != best.chain and [layer for layer, _ in chain.stages] == layers]
        self._measure_to([trial for chain in others for trial in self._add(chain, best.params[None])], 0)

    @property
    def chain_ranking(self) -> list[tuple[Chain, float]]:
        """The measured chains and their least loss on the first rung, best first."""
        first = self._num_samples(0)
        best: dict[Chain, float] = {}
        for trial in self._measured_trials:
            loss = float(saturating_loss(trial.kl[:first]).mean())
            best[trial.chain] = min(loss, best.get(trial.chain, loss))
        return sorted(best.items(), key=lambda pair: pair[1])

    def add_trials(self, others: Sequence[_Trial], rung: int = 0) -> None:
        """Measure trials of other levels, moved to this one."""
        wanted = [self._add(trial.chain, trial.params[None])[0] for trial in others]
        self._measure_to(wanted, min(rung, len(self.rungs) - 1))

    def measure_neighbours(self) -> None:
        """Measure shapes near the best ones, of their chains, on the first rung."""
        count = self.settings.at(self.settings.neighbours, self.budget)
        leaders = self._shortlist(max(2, count // 2))
        wanted = []
        for chain in dict.fromkeys(trial.chain for trial in leaders):
            own = torch.stack([trial.counts for trial in leaders if trial.chain == chain])
            pool = self._pool(chain)
            near = self._add(chain, pool.params[pool.nearest(own.double() / self.size[:, 1])])
            new = [trial for trial in near if trial.rung < 0]
            wanted += new[: max(1, round(count * len(own) / len(leaders)))]
        self._measure_to(wanted, 0)

    def compensate(self) -> None:
        """Measure the best trial with compensations (see `JointSettings`), then the shortlist with the best of them.

        The best one is chosen on the first rung, and must gain more than its standard error on the samples of the others, which
        it was not chosen by. Else no trial of this level has one: few samples would find a compensation by chance.
        """
        positive = sorted(beta for beta in self.settings.compensations if beta > 0)
        negative = [beta for beta in self.settings.compensations if beta < 0]
        if not self.settings.compensations:
            return
        best = self.best(1)[0]

        def measure(betas: Sequence[float]) -> list[_Trial]:
            added = [self._add(best.chain.with_compensation(beta), best.params[None])[0] for beta in betas]
            self._measure_to(added, 0)
            return [self.trials[trial.key] for trial in added]

        plain, *tried = measure([0.0, *positive[len(positive) // 2 :][:1]])
        gains = bool(tried) and tried[0].loss < plain.loss
        found = min([*tried, *measure(positive if gains else negative)], key=lambda trial: trial.loss, default=plain)
        self._measure_to([plain, found], len(self.rungs) - 1)
        loss, other = (saturating_loss(self.trials[trial.key].kl) for trial in (plain, found))
        unseen = self._num_samples(0) if len(loss) > self._num_samples(0) else 0
        if not is_gain((loss - other)[unseen:], _GAIN_ERRORS):
            known = self.chains.candidates
            self.trials = {k: t for k, t in self.trials.items() if not t.chain.compensate or t.chain in known}
            return
        beta = found.chain.compensate
        for trial in self._shortlist(self.settings.at(self.settings.shortlist[0], self.budget)):
            self._measure_to(self._add(trial.chain.with_compensation(beta), trial.params[None]), 0)

    def promote(self) -> None:
        """Measure the shortlist on the second rung, a shorter one on the third."""
        for rung, size in enumerate(self.settings.shortlist, start=1):
            self._measure_to(self._shortlist(self.settings.at(size, self.budget), rung - 1), rung)

    def best(self, count: int) -> list[_Trial]:
        """The best trials of the highest rung, then those of the rungs below."""
        return sorted(self._measured_trials, key=lambda trial: (-trial.rung, trial.loss))[:count]

    def anchors(self) -> tuple[Configurations, Tensor]:
        """The configurations of the last rung that are best together, then the best others; and their KL [samples, K].

        Of the others, the best of each first scorer come first: where few samples see no use of them, more may. If they
        cannot share a batch with most chains, the best trial that can comes last: a mean budget needs all levels in one batch.
        """
        most = max(trial.rung for trial in self._measured_trials)
        among = sorted((trial for trial in self._measured_trials if trial.rung == most), key=lambda trial: trial.loss)
        kind = batch_kind(among[0].chain)
        found = [trial for trial in among if batch_kind(trial.chain) == kind]  # these can share a batch
        kl = torch.stack([trial.kl for trial in found], dim=-1)
        size = self.settings.anchors
        useful = select_anchors(kl, self.groups[: len(kl)], size)
        places = list(dict.fromkeys([*useful, *_best_per_first_scorer(found), *range(len(found))]))[:size]
        chosen = [found[place] for place in places]
        if kind != _ENTRY:
            chosen += [trial for trial in among if batch_kind(trial.chain) == _ENTRY][:1]
        parts = [self._configurations([trial]) for trial in chosen]
        return Configurations.join(parts), torch.stack([trial.kl for trial in chosen], dim=-1)

    @property
    def _measured_trials(self) -> list[_Trial]:
        """The trials that have been measured on a rung."""
        return [trial for trial in self.trials.values() if trial.rung >= 0]

    def _pool(self, chain: Chain) -> ShapePool:
        if chain not in self.pools:
            objective = self.chains.objective_of(chain)
            self.pools[chain] = chain_shapes(
                objective, self.chains.kernel, self.budget, self.size, servable=self.settings.servable
            )
        return self.pools[chain]

    def _add(self, chain: Chain, params: Tensor) -> list[_Trial]:
        """The trials of shapes [N, P]; new ones are not measured yet."""
        if not len(params):
            return []
        objective = self.chains.objective_of(chain)
        counts = typical_counts(objective, self.chains.kernel, params, self.budget, self.size)
        found = [_Trial(chain, own, tokens) for own, tokens in zip(params.double(), counts.long(), strict=True)]
        return [self.trials.setdefault(trial.key, trial) for trial in found]

    def _measure_to(self, wanted: Sequence[_Trial], rung: int) -> None:
        """Measure trials on the samples up to a rung, those that have not seen them."""
        for step in range(rung + 1):
            new = list({t.key: t for t in (self.trials[each.key] for each in wanted) if t.rung == step - 1}.values())
            if not new:
                continue
            kl = self._measure(self._configurations(new), self.rungs[step])
            for trial, own in zip(new, kl.T, strict=True):
                self.trials[trial.key] = replace(trial, rung=step, kl=torch.cat([trial.kl, own]))

    def _configurations(self, trials: Sequence[_Trial]) -> Configurations:
        chains = tuple(dict.fromkeys(trial.chain for trial in trials))
        number = torch.tensor([chains.index(trial.chain) for trial in trials])
        level = torch.full((len(trials),), self.level, dtype=torch.float64)
        return Configurations(chains, number, torch.stack([trial.params for trial in trials]), level)

    def _measure(self, configurations: Configurations, places: Sequence[int]) -> Tensor:
        """KL [M, K] on the samples of the batches at some places.

        Every rank measures some of the chains on some of the batches, so that a rung at one batch is shared, too.
        """
        ranks = rank_and_size()[1]
        sizes = [len(configurations.places(number)) for number in range(len(configurations.chains))]
        parts = [(place, number) for place in places for number, size in enumerate(sizes) if size]

        def measure(part: tuple[int, int]) -> Tensor:
            batch, number = self.batches[part[0]], part[1]
            kl = self.chains.measure_chain(batch, configurations, number, self.level)
            label = f"budgets near {self.budget:.0%}: {len(configurations)} configurations"
            self.progress(ranks * self.budget * kl.numel(), label)
            return kl

        weights = [float(self.lengths[place] * sizes[number]) for place, number in parts]
        kls = {place: torch.empty(self.lengths[place], len(configurations)) for place in places}
        measured = shared_over_ranks(parts, measure, self.chains.objective, weights)
        for (place, number), kl in zip(parts, measured, strict=True):
            kls[place][:, configurations.places(number)] = kl.T
        return torch.cat([torch.empty(0, len(configurations)), *kls.values()])

    def _num_samples(self, rung: int) -> int:
        """The samples that a trial has seen after a rung."""
        return sum(self.lengths[: self.rungs[rung].stop])

    def _shortlist(self, size: int, rung: int = 0) -> list[_Trial]:
        """Of the trials of a rung, by its samples: the best, the best of each other first scorer, those that serve together.

        Chains that begin alike lose the same samples, so that a ranking alone would end with several of them.
        """
        samples = self._num_samples(rung)
        among = [replace(t, kl=t.kl[:samples]) for t in self._measured_trials if t.rung >= rung]
        among.sort(key=lambda trial: trial.loss)
        near = [
            place for place in _best_per_first_scorer(among) if among[place].loss <= _MAX_LOSS_RATIO * among[0].loss
        ]
        loss = saturating_loss(torch.stack([trial.kl for trial in among], dim=-1))
        together = greedy_anchors(loss, leave_one_out_means(loss, self.groups[: len(loss)]), size - size // 4)
        wanted = dict.fromkeys([*near[: max(2, size // 2)], *together, *range(len(among))])
        return [among[place] for place in list(wanted)[:size]]

    @cached_property
    def observation(self) -> Observation:
        """What a predictor sees of the samples of all rungs."""
        seen = range(self.rungs[-1].stop)
        return join_observations([self.batches[place].observation.to("cpu") for place in seen])

    @cached_property
    def groups(self) -> Tensor:
        """The group of instructions of each of these samples: int64 [n]."""
        return group_instructions(self.observation)


def _best_per_first_scorer(trials: Sequence[_Trial]) -> list[int]:
    """Of trials, best first, the places of the best of each scorer that chooses before the model, and of all others."""
    first: dict[str, int] = {}
    for place, trial in enumerate(trials):
        first.setdefault(str(trial.chain.scorers[0]) if trial.chain.earliest_layer == 0 else "", place)
    return list(first.values())
