"""The joint search: chains compared, configurations found at each level, measured on all samples, and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from vispco.cost import Cost
from vispco.planning.configurations import Configurations, budget_at, level_of, nearest_level, text_floor
from vispco.planning.found_shape import FoundShape
from vispco.planning.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.planning.memory import bounded
from vispco.planning.observation import Observation, join_observations
from vispco.planning.similarity import as_points, describe, scales, similarity_weights
from vispco.scorers import Chain
from vispco.search.batch import Batch
from vispco.search.calibration import batch_lengths
from vispco.search.joint.choosing import choose_configurations
from vispco.search.joint.halving import LevelSearch, MeasuredConfigurations
from vispco.search.joint.measuring import Chains
from vispco.search.joint.settings import JointSettings
from vispco.search.joint.space import joint_kernel
from vispco.search.objective import Objective
from vispco.search.ranks import Progress, rank_and_size, shared_over_ranks
from vispco.search.table.kl_table import HeldOutKl


@dataclass(frozen=True, eq=False)
class JointTable:
    """Configurations of all levels, and their KL on the calibration samples.

    kl: [M, K], infinite where a sample was not measured. ranking: level -> chains and their least bounded loss in the
    first look, best first.
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
    searches = {level: LevelSearch(candidates, batches, level, settings, progress) for level in sorted(settings.levels)}
    ranking = _compare_chains(searches, chains, settings)
    _climb(searches, ranking, settings)
    found = [search.anchors() for search in searches.values()]
    configurations = Configurations.join([each.configurations for each in found])
    kl, observation = _measure_rest(candidates, batches, configurations, found, settings, progress)
    ranked_chains = {level: [(str(chain), loss) for chain, loss in searches[level].ranked] for level in ranking}
    return JointTable(configurations, observation, kl, ranked_chains, objective.cost, settings.servable)


def _compare_chains(
    searches: dict[float, LevelSearch], chains: Sequence[Chain], settings: JointSettings
) -> dict[float, list[Chain]]:
    """The first look at the chains, at the ranking levels; the best chains of each.

    Of the chains that begin with the same scorer and have as many, the first one is looked at; then its best shapes under
    the others. Which scorer comes second matters less than which one comes first, and than the shape.
    """
    levels = [level for level in settings.ranking if level in searches]
    kinds: dict[tuple[str, int], list[Chain]] = {}
    for chain in chains:
        kinds.setdefault((str(chain.scorers[0]), len(chain.stages)), []).append(chain)
    found = {}
    for level in levels or [sorted(searches)[len(searches) // 2]]:
        searches[level].scout([kind[0] for kind in kinds.values()])
        searches[level].swap(chains)
        found[level] = [chain for chain, _ in searches[level].ranked[: settings.chains]]
    return found


def _climb(searches: dict[float, LevelSearch], ranking: dict[float, list[Chain]], settings: JointSettings) -> None:
    """The search at each level, ranking levels first; every level begins with what the levels beside it found.

    At the end each level also measures the best of the levels beside it on all looks: what is good with less or more money
    is often good here, and few samples had to decide.
    """
    levels, done = sorted(searches), list[float]()
    for level in [*ranking, *sorted(set(levels) - set(ranking), key=lambda each: _nearest(each, ranking)[1])]:
        for near in _beside(level, done):
            searches[level].take(searches[near].best(settings.at(settings.carried, searches[level].budget)))
        searches[level].refine()
        searches[level].swap(ranking[_nearest(level, ranking)[0]])
        searches[level].narrow()
        done.append(level)
    best = {level: search.best(1) for level, search in searches.items()}
    for level in levels:
        for near in _beside(level, levels):
            searches[level].take(best[near], look=len(settings.looks) - 1)


def _beside(level: float, levels: Iterable[float]) -> list[float]:
    """Of some levels, the next one below and the next one above."""
    below, above = [each for each in levels if each < level], [each for each in levels if each > level]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def _nearest(level: float, levels: Iterable[float]) -> tuple[float, float]:
    """The nearest of some levels, and how far it is."""
    return min(((each, abs(each - level)) for each in levels), key=lambda pair: pair[1])


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
        choice = choose_configurations(kl[rows][:, columns], table.observation.take(rows))
        used = columns[choice.columns]
        kept[used], bandwidth[columns] = True, choice.bandwidth
        held_out[level] = HeldOutKl(*(float(each.mean()) for each in (choice.static, choice.predictor, choice.oracle)))
        filled[:, columns] = _filled(bounded(kl[:, columns]), rows, table.observation, choice.bandwidth)
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


def _filled(loss: Tensor, rows: Tensor, observation: Observation, bandwidth: float) -> Tensor:
    """The loss of samples that were not measured at a level, estimated from the rows that were: none of a memory is empty."""
    measured = torch.zeros(len(loss), dtype=torch.bool)
    measured[rows] = True
    raw = describe(observation)
    points = as_points(raw, *scales(raw))
    weights = similarity_weights(points[~measured], points[rows], bandwidth)
    filled = loss.clone()
    filled[~measured] = weights @ loss[rows]
    return filled
