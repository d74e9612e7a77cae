"""The joint search: chains compared, configurations found at each level, measured on all samples, and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from vispco.cost import Cost
from vispco.planning.configurations import Configurations, budget_at, level_of, nearest_level, text_floor
from vispco.planning.found_shape import FoundShape
from vispco.planning.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.planning.observation import Observation, join_observations
from vispco.planning.similarity import as_points, describe, scales, similarity_weights
from vispco.scorers import Chain
from vispco.search.batch import Batch
from vispco.search.calibration import batch_lengths
from vispco.search.joint.halving import (
    Chains,
    LevelSearch,
    MeasuredConfigurations,
    best_chains,
    only_chains,
)
from vispco.search.joint.settings import JointSettings
from vispco.search.joint.space import joint_kernel
from vispco.search.objective import Objective
from vispco.search.ranks import Progress, rank_and_size, shared_over_ranks
from vispco.search.table.kl_table import HeldOutKl
from vispco.search.table.memory_fit import choose_anchors


@dataclass(frozen=True, eq=False)
class JointTable:
    """Configurations of all levels, and their KL on the calibration samples.

    kl: [M, K], infinite where a sample was not measured. ranking: level -> chains and their least mean KL, best first.
    """

    configurations: Configurations
    observation: Observation
    kl: Tensor
    ranking: dict[float, list[tuple[str, float]]]
    cost: Cost
    servable: bool = False

    @property
    def typical_floor(self) -> Tensor:
        """What a sample of the median size costs without visual tokens, as a fraction."""
        text, visual = self.observation.sizes.median(0).values
        return text_floor(text[None], visual[None], self.cost)[0]

    def budget(self, level: float) -> float:
        """The budget of a level for a sample of the median size."""
        return float(budget_at(level, self.typical_floor))

    def _best_place(self, level: float) -> tuple[int, float]:
        columns = (self.configurations.level == level).nonzero()[:, 0]
        kl = self.kl[:, columns]
        means = kl[kl.isfinite().all(-1)].mean(0)
        return int(columns[means.argmin()]), float(means.min())

    def best(self, level: float) -> Chain:
        """The chain of the configuration that is best for all samples together."""
        return self.configurations.chains[int(self.configurations.chain[self._best_place(level)[0]])]

    def found(self, budget: float) -> FoundShape:
        """The best single configuration for a budget, for those who want one static schedule."""
        level = float(nearest_level(level_of(budget, self.typical_floor[None]), self.configurations.levels)[0])
        place, kl = self._best_place(level)
        chain = self.best(level)
        kernel = replace(joint_kernel(servable=self.servable), earliest_layer=chain.earliest_layer)
        return FoundShape(budget, self.configurations.params[place], kl, chain=chain.to_dict(), kernel=kernel.config())


def measure_joint_table(
    objective: Objective,
    batches: Sequence[Batch],
    chains: Sequence[Chain],
    settings: JointSettings | None = None,
    progress: Progress = lambda *_: None,
) -> JointTable:
    """Everything that runs the language model."""
    settings = settings or JointSettings()
    candidates = Chains(objective, chains, servable=settings.servable)
    searches = {level: LevelSearch(candidates, batches, level, settings, progress) for level in settings.levels}
    firsts = _compare_chains(searches, chains, settings)
    found: list[MeasuredConfigurations] = []
    for level, search in searches.items():
        first = firsts.get(level)
        if first is None:
            nearest = min(firsts, key=lambda each: abs(each - level))
            first = search.first_look(firsts[nearest].configurations.chains)
        found.append(search.finish(first))
    configurations = Configurations.join([each.configurations for each in found])
    kl, observation = _measure_rest(candidates, batches, configurations, found, settings, progress)
    ranking = {level: _ranked(first) for level, first in firsts.items()}
    return JointTable(configurations, observation, kl, ranking, objective.cost, settings.servable)


def _compare_chains(
    searches: dict[float, LevelSearch], chains: Sequence[Chain], settings: JointSettings
) -> dict[float, MeasuredConfigurations]:
    """The first look at all chains, at the ranking levels; the best chains of each."""
    found = {}
    for level in settings.ranking if len(chains) > settings.chains else settings.levels:
        if level in searches:
            first = searches[level].first_look(chains)
            found[level] = only_chains(first, best_chains(first, settings.chains))
    if not found:  # levels without a ranking one among them
        level = sorted(searches)[len(searches) // 2]
        first = searches[level].first_look(chains)
        found[level] = only_chains(first, best_chains(first, settings.chains))
    return found


def _ranked(first: MeasuredConfigurations) -> list[tuple[str, float]]:
    means, chain = first.kl.mean(0), first.configurations.chain
    best = [(str(each), float(means[chain == n].min())) for n, each in enumerate(first.configurations.chains)]
    return sorted(best, key=lambda pair: pair[1])


def _measure_rest(
    candidates: Chains,
    batches: Sequence[Batch],
    configurations: Configurations,
    found: Sequence[MeasuredConfigurations],
    settings: JointSettings,
    progress: Progress,
) -> tuple[Tensor, Observation]:
    """KL [M, K] on all samples: what the looks measured, and for each further batch some of the levels in turn.

    Also what a predictor sees of the samples. Of many ranks, each runs the vision tower and the teacher on its own part of
    the further batches.
    """
    lengths = batch_lengths(batches)
    total = sum(lengths)
    kl = torch.full((total, len(configurations)), torch.inf)
    start = 0
    for each in found:
        width = len(each.configurations)
        kl[: len(each.kl), start : start + width] = each.kl
        start += width
    seen, levels = len(found[0].kl), configurations.levels
    ends = list(accumulate(lengths))
    rest = [number for number, end in enumerate(ends) if end > seen]
    ranks = rank_and_size()[1]

    def measure(number: int) -> tuple[Tensor, Observation]:
        """KL [B, K] of one batch, and what a predictor sees of it."""
        batch = batches[number]
        part = torch.full((len(batch), len(configurations)), torch.inf)
        for turn in range(min(settings.levels_per_batch, len(levels))):
            level = levels[(number * settings.levels_per_batch + turn) % len(levels)]
            places = (configurations.level == level).nonzero()[:, 0]
            part[:, places] = candidates.measure(batch, configurations.take(places), level).T
            progress(ranks * level * len(places) * len(batch), f"table: {ends[number]} of {total} samples")
        return part, batch.observation.to("cpu")

    seen_before = [number for number in range(len(batches)) if number not in rest]
    observations = [batches[number].observation.to("cpu") for number in seen_before]
    for number, (part, observation) in zip(rest, shared_over_ranks(rest, measure, candidates.objective), strict=True):
        kl[ends[number] - len(part) : ends[number]] = part
        observations.append(observation)
    return kl, join_observations(observations)


def fit_joint_predictor(objective: Objective, table: JointTable) -> tuple[JointPredictor, dict[float, HeldOutKl]]:
    """A predictor that remembers a table; the language model does not run. Also its held-out KL by level.

    At each level the configurations are kept whose choice, each sample left out once, has the least KL.
    """
    configurations, kl = table.configurations, table.kl
    kept, held_out = torch.zeros(len(configurations), dtype=torch.bool), {}
    bandwidth = torch.ones(len(configurations))
    filled = kl.clone()
    for level in configurations.levels:
        columns = (configurations.level == level).nonzero()[:, 0]
        rows = kl[:, columns].isfinite().all(-1).nonzero()[:, 0]
        choice = choose_anchors(kl[rows][:, columns], table.observation.take(rows))
        used = columns[choice.columns]
        kept[used], bandwidth[columns] = True, choice.bandwidth
        held_out[level] = HeldOutKl(*(float(each.mean()) for each in (choice.static, choice.predictor, choice.oracle)))
        filled[:, columns] = _filled(kl[:, columns], rows, table.observation, choice.bandwidth)
    config = JointPredictorConfig(
        hidden=objective.cost.dimensions.hidden,
        anchors=len(configurations),
        samples=len(kl),
        kernel=joint_kernel(servable=table.servable).config(),
        servable=table.servable,
        chains=[chain.to_dict() for chain in configurations.chains],
        cost=objective.cost.to_dict(),
    )
    predictor = JointPredictor(config)
    _copy(predictor, configurations, kept)
    predictor.memory.remember(table.observation, filled, bandwidth)
    predictor.sizes.copy_(table.observation.sizes)
    return predictor.to(objective.model.device).eval(), held_out


def _copy(predictor: Any, configurations: Configurations, kept: Tensor) -> None:
    predictor.params.copy_(configurations.params)
    predictor.chain.copy_(configurations.chain)
    predictor.level.copy_(configurations.level)
    predictor.kept.copy_(kept)


def _filled(kl: Tensor, rows: Tensor, observation: Observation, bandwidth: float) -> Tensor:
    """KL of samples that were not measured at a level, estimated from those that were: no row of a memory is empty."""
    missing = (~kl.isfinite().all(-1)).nonzero()[:, 0]
    if not len(missing):
        return kl
    raw = describe(observation)
    points = as_points(raw, *scales(raw))
    weights = similarity_weights(points[missing], points[rows], bandwidth)
    filled = kl.clone()
    filled[missing] = weights @ kl[rows]
    return filled
