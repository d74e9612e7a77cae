"""The joint search: from candidate chains to a table of measured configurations at each level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from vispco.cost import Cost
from vispco.engine.compensation import can_compensate
from vispco.kernels import Kernel
from vispco.pruner.configurations import Configurations, budget_at, level_of, nearest_level, text_floor
from vispco.pruner.observation import Observation, join_observations
from vispco.pruner.search_files import FoundShape
from vispco.scorers import Chain
from vispco.search.batch import Batch
from vispco.search.joint.anchor_selection import choice_loss, is_gain
from vispco.search.joint.chain_objectives import ChainObjectives
from vispco.search.joint.instruction_groups import group_instructions
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.joint.level_search import LevelSearch
from vispco.search.joint.space import chain_kernel, joint_kernel
from vispco.search.joint.stage_samples import StageSamples, fill_unmeasured
from vispco.search.objective import Objective
from vispco.search.ranks import Progress
from vispco.search.shape_pool import sample_floors


@dataclass(frozen=True, eq=False)
class JointTable:
    """Configurations of all levels, and their KL on the calibration samples.

    kl: [M, K], infinite where a sample was not measured. hard: bool [M, K], samples that were hard at the level below that of
    a configuration; those that are not stand for the ones that were not measured. ranking: level -> chains and their least
    saturating loss in the first rung, best first.
    """

    configurations: Configurations
    observation: Observation
    kl: Tensor
    hard: Tensor
    ranking: dict[float, list[tuple[str, float]]]
    cost: Cost
    kernel: Kernel
    servable: bool = False

    @property
    def typical_floor(self) -> Tensor:
        """What a sample of the median size costs without visual tokens, as a fraction."""
        text, visual = self.observation.sizes[:, :2].median(0).values
        return text_floor(text[None], visual[None], self.cost)[0]

    def budget(self, level: float) -> float:
        """The budget of a level for a sample of the median size."""
        return float(budget_at(level, self.typical_floor))

    @cached_property
    def groups(self) -> Tensor:
        """The group of instructions of each sample: int64 [M]."""
        return group_instructions(self.observation)

    def measured(self, columns: Tensor) -> Tensor:
        """The KL [M, k] of configurations of one level, filled where a sample was not measured."""
        return fill_unmeasured(self.kl[:, columns], self.hard[:, int(columns[0])])

    def _best_place(self, level: float) -> tuple[int, float]:
        columns = (self.configurations.level == level).nonzero()[:, 0]
        kl = self.measured(columns)
        means = kl.mean(0)
        return int(columns[means.argmin()]), float(means.min())

    def best(self, level: float) -> Chain:
        """The chain of the configuration that is best for all samples together."""
        return self.configurations.chains[int(self.configurations.chain[self._best_place(level)[0]])]

    def found(self, budget: float) -> FoundShape:
        """The best single configuration for a budget, for those who want one static schedule."""
        level = float(nearest_level(level_of(budget, self.typical_floor[None]), self.configurations.levels)[0])
        place, kl = self._best_place(level)
        chain = self.best(level)
        params, kernel = self.configurations.params[place], chain_kernel(self.kernel, chain)
        return FoundShape(budget, params, kl, chain=chain.to_dict(), kernel=kernel.config())


def measure_joint_table(
    objective: Objective,
    batches: Sequence[Batch],
    chains: Sequence[Chain],
    settings: JointSettings | None = None,
    progress: Progress = lambda *_: None,
    kernel: Kernel | None = None,
    budgets: Sequence[float] = (),
) -> JointTable:
    """Measure configurations of all levels, stage by stage, from low levels to high ones: all that runs the language model.

    The first stage decides how many samples there are. Each further one is measured on the hard samples of the stage before:
    a sample that loses nothing at a low level loses nothing at a higher one. kernel: of the shapes; default: the joint
    space's. budgets: those that will be served (`JointSettings.served_levels`).
    """
    settings = settings or JointSettings()
    if settings.servable or not can_compensate(objective.model):  # serving engines take no bias either
        settings = replace(settings, compensations=())
    kernel = kernel or joint_kernel(servable=settings.servable)
    candidates = ChainObjectives(objective, chains, kernel)
    samples = StageSamples.of(batches, settings)
    explored = settings.served_levels(budgets, sample_floors(samples.rung_batches(), objective.cost))
    ranking_levels = [
        _nearest(level, [each for each, own in explored.items() if own])[0] for level in settings.ranking_levels
    ]
    searches: dict[float, LevelSearch] = {}
    ranking: dict[float, list[Chain]] = {}
    parts: list[Configurations] = []
    tables: list[Tensor] = []
    hard: list[Tensor] = []
    observation: Observation | None = None
    for levels in settings.stages(list(explored)):
        rungs = samples.rung_batches()
        stage = {level: LevelSearch(candidates, rungs, level, samples.settings, progress) for level in levels}
        known = bool(searches) or any(explored[level] for level in levels)  # else there is nothing to take over
        own = {level: search for level, search in stage.items() if explored[level] or not known}
        ranking |= _compare_chains(own, chains, settings, ranking_levels, needed=not ranking)
        _search_levels(own, searches, ranking)
        searches |= own
        for level in levels:
            if level not in own:
                _inherit(stage[level], searches)
                stage[level].promote()
        chosen, measured = zip(*(search.anchors() for search in stage.values()), strict=True)
        found, kl = Configurations.join(chosen), torch.cat(measured, dim=1)
        if observation is None:
            samples, kl, observation = _grow(samples, candidates, found, kl, stage[levels[0]].observation, progress)
        parts.append(found)
        tables.append(samples.as_table(kl))
        hard.append(samples.hard[:, None].expand_as(tables[-1]))
        samples = samples.after(tables[-1][:, found.level == levels[-1]])
    assert observation is not None  # noqa: S101 - there is at least one stage
    ranked_chains = {level: [(str(chain), loss) for chain, loss in searches[level].chain_ranking] for level in ranking}
    configurations, kl, every_hard = Configurations.join(parts), torch.cat(tables, dim=1), torch.cat(hard, dim=1)
    return JointTable(
        configurations, observation, kl, every_hard, ranked_chains, objective.cost, kernel, settings.servable
    )


def _grow(
    samples: StageSamples,
    candidates: ChainObjectives,
    found: Configurations,
    kl: Tensor,
    observation: Observation,
    progress: Progress,
) -> tuple[StageSamples, Tensor, Observation]:
    """Measure the configurations of the first stage on twice as many samples: to `min_samples`, then as long as it gains.

    Each time, every sample chooses by what the samples were before, and by all of them, itself left out. kl: [M, K].
    """
    while more := samples.as_many_again:
        before = len(kl)
        new, seen = samples.measure(more, candidates, found, progress)
        kl, observation = torch.cat([kl, new]), join_observations([observation, seen])
        samples = samples.with_samples(len(kl))
        groups, gain = group_instructions(observation), torch.zeros(len(kl))
        for level in found.levels:
            own = kl[:, found.level == level]
            gain += choice_loss(own, groups, before) - choice_loss(own, groups, len(kl))
        if len(kl) >= samples.settings.min_samples and not is_gain(gain, 0.0):
            break
    return samples, kl, observation


def _compare_chains(
    searches: dict[float, LevelSearch],
    chains: Sequence[Chain],
    settings: JointSettings,
    ranking_levels: Sequence[float],
    *,
    needed: bool,
) -> dict[float, list[Chain]]:
    """Compare the chains on the first rung of the ranking levels among these; the best chains of each.

    Of the chains that begin with the same scorer and have as many, the first one is measured, then its best shape under the
    others: which scorer comes second matters less than which one comes first, and than the shape.
    needed: compare them at the median level where no ranking level is among these.
    """
    levels = [level for level in ranking_levels if level in searches]
    representatives: dict[tuple[str, int], Chain] = {}
    for chain in chains:
        representatives.setdefault((str(chain.scorers[0]), len(chain.stages)), chain)
    found = {}
    for level in levels or ([sorted(searches)[len(searches) // 2]] if needed else []):
        searches[level].measure_chains(list(representatives.values()))
        searches[level].try_chains(chains)
        found[level] = [chain for chain, _ in searches[level].chain_ranking[: settings.chains]]
    return found


def _search_levels(
    searches: dict[float, LevelSearch],
    finished: dict[float, LevelSearch],
    ranking: dict[float, list[Chain]],
) -> None:
    """Search each level, ranking levels first; every level inherits the best trials of the adjacent ones.

    finished: the levels of earlier stages. Before its promotions a level inherits once more: what is good at a lower or a
    higher level is often good here, and few samples had to decide.
    """
    known, first = dict(finished), [level for level in ranking if level in searches]
    for level in [*first, *sorted(set(searches) - set(first), key=lambda each: _nearest(each, ranking)[1])]:
        _inherit(searches[level], known)
        searches[level].measure_neighbours()
        searches[level].try_chains(ranking[_nearest(level, ranking)[0]])
        known[level] = searches[level]
    for level in sorted(searches):
        _inherit(searches[level], known)
        searches[level].compensate()
        searches[level].promote()


def _inherit(search: LevelSearch, known: dict[float, LevelSearch]) -> None:
    """Measure the best trials of the next level below and of the next one above."""
    below, above = [each for each in known if each < search.level], [each for each in known if each > search.level]
    for near in ([max(below)] if below else []) + ([min(above)] if above else []):
        search.add_trials(known[near].best(search.settings.at(search.settings.inherited, search.budget)))


def _nearest(level: float, levels: Iterable[float]) -> tuple[float, float]:
    """The nearest of some levels, and how far it is."""
    return min(((each, abs(each - level)) for each in levels), key=lambda pair: pair[1])
