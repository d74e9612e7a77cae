"""The search for budgets of the whole prefill: tower settings are compared first, then the joint search runs on the best ones.

A tower setting is the pixels with which pictures enter, and a cut inside the vision tower. Each budget gets one. Features are
computed once for each setting and sample; the teacher sees whole pictures, once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import torch

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.progress_lines import ProgressBar
from vispco.core.runs import files
from vispco.core.runs.run_folder import RunFolder
from vispco.core.weights import hide_weight_bars
from vispco.cost import Budget, BudgetWarning, Cost, Exact
from vispco.families import family_of
from vispco.pruner.configurations import level_of, text_floor
from vispco.pruner.joint_predictor import JointPredictor
from vispco.pruner.kernel_regression import saturating_loss
from vispco.pruner.picture_setting import PictureSetting
from vispco.pruner.pruner import Pruner
from vispco.pruner.pruner_spec import NAME, PrunerSpec
from vispco.pruner.search_files import PREDICTOR
from vispco.pruner.whole_planner import Shares, WholePlanner, entering_shares, prefill_shares
from vispco.scorers import Chain
from vispco.search.joint.joint_table import measure_joint_table
from vispco.search.joint.predictor_fit import fit_joint_predictor
from vispco.search.joint.space import chain_shapes, joint_kernel
from vispco.search.modes import SearchResult, SearchRun
from vispco.search.objective import Objective
from vispco.search.shape_pool import measure_shapes, median_size
from vispco.search.tower_batches import TowerBatches

_LEAST_LEVEL, _MOST_LEVEL = 0.02, 0.95


@dataclass(frozen=True)
class TowerSpace:
    """The tower settings that are compared, and how thoroughly.

    scorers, blocks, keeps: of one cut; blocks are shares of the depth. pixels: shares of a picture's pixels, 1 included. chains:
    of the language model, which stand for all of them. shapes: of each chain. samples: of the first comparison, and of the last
    one, in which each chain has its best shape. The best `finalists` of each budget are tried with fewer pixels, and the best
    ones then with scorers other than the first.
    """

    scorers: tuple[str, ...] = ("divprune", "vispruner", "scope")
    blocks: tuple[float, ...] = (0.2, 0.4, 0.6)
    keeps: tuple[float, ...] = (0.7, 0.5, 0.35)
    pixels: tuple[float, ...] = (1.0,)
    chains: tuple[str, ...] = ("divprune+fastv", "fastv")
    shapes: int = 4
    samples: tuple[int, int] = (48, 256)
    finalists: int = 3

    def settings(self, num_blocks: int) -> list[PictureSetting]:
        """The whole tower, smaller pictures, and cuts of whole pictures."""
        places = dict.fromkeys(min(num_blocks - 1, round(share * num_blocks)) for share in self.blocks)
        cuts = [
            PictureSetting.cut_at(self.scorers[0], block, keep, num_blocks)
            for block, keep in product(places, self.keeps)
        ]
        return [*(PictureSetting(share) for share in self.pixels), *cuts]

    def smaller(self, setting: PictureSetting) -> list[PictureSetting]:
        """A setting of whole pictures, with fewer pixels."""
        return [replace(setting, pixels=share) for share in self.pixels if share < setting.pixels == 1.0]

    def chosen_otherwise(self, setting: PictureSetting) -> list[PictureSetting]:
        """A cut by the other scorers, which may read the attention of the block before."""
        if setting.cut is None or (block := setting.cut.chain.tower[0][0]) == 0:
            return []
        retention = setting.cut.retention
        cuts = [PictureSetting.cut_at(scorer, block, retention[-1], len(retention)) for scorer in self.scorers[1:]]
        return [replace(each, pixels=setting.pixels) for each in cuts]


@dataclass(frozen=True, eq=False)
class _WholePart:
    """What was found for a budget: a tower setting, and a predictor of configurations of the language model under it.

    shares: see `WholePlanner`. ranking: the settings that were compared and their loss, best first.
    """

    budget: Budget
    setting: PictureSetting
    predictor: JointPredictor
    shares: Shares
    ranking: list[tuple[str, float]] = field(default_factory=list)

    def planner(self, budget: Budget | None = None) -> WholePlanner:
        """What is deployed, at its budget or another one."""
        return WholePlanner(self.predictor, budget or self.budget, self.setting, self.shares)

    def pruner(self, budget: Budget | None = None) -> Pruner:
        """The same, on pictures that are read by the caller."""
        planner = self.planner(budget)
        return Pruner(planner.chain, planner, pixels=self.setting.pixels)


@dataclass(eq=False)
class _Candidate:
    """A setting under comparison: its batches, and the language model's objective for each chain.

    losses: the mean loss at each budget. best: at each budget the best shape of each chain, params [1, P].
    """

    setting: PictureSetting
    batches: TowerBatches
    objectives: dict[str, Objective]
    losses: dict[Budget, float] = field(default_factory=dict)
    best: dict[tuple[Budget, str], torch.Tensor] = field(default_factory=dict)
    known: dict[int, Any] = field(default_factory=dict)

    def batch(self, place: int) -> Any:
        """A batch with the layout that says what its tower spent; kept, it is measured at several budgets."""
        if place not in self.known:
            batch = self.batches[place]
            self.known[place] = (batch, self.batches.layout(batch.encoded))
        return self.known[place]


@dataclass(frozen=True, eq=False)
class _WholeResult(SearchResult):
    """What was found for each budget of the whole prefill."""

    parts: list[_WholePart] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        return {"parts": [{"budget": str(part.budget), "folder": f"part-{n}"} for n, part in enumerate(self.parts)]}

    def planner(self, run: SearchRun, budget: float | str) -> WholePlanner:  # type: ignore[override]  # noqa: ARG002
        return next(part.planner() for part in self.parts if part.budget == Budget.of(budget))

    def save_parts(self, folder: RunFolder) -> None:
        """A saved pruner for each budget."""
        for entry, part in zip(self.facts()["parts"], self.parts, strict=True):
            plan = {"kind": "whole", "setting": part.setting.to_dict(), "shares": part.shares, "folder": PREDICTOR}
            chain, cost = part.predictor.chains[0], part.predictor.make_cost().to_dict()
            spec = PrunerSpec(chain, plan, entry["budget"], cost, pixels=part.setting.pixels)
            with hide_weight_bars(), folder.staging(entry["folder"]) as unfinished:
                part.predictor.save_pretrained(unfinished / PREDICTOR)
                files.write_json(unfinished / NAME, spec.to_dict())


def search_whole(run: SearchRun, processor: Any, space: TowerSpace | None = None) -> _WholeResult:
    """Find a setting of pictures and configurations of the language model for each budget of the run's spec."""
    budgets = [Budget.of(budget) for budget in run.spec.whole]
    space = space or TowerSpace(pixels=run.spec.pixels)
    ranked = compare_settings(run, processor, space, budgets)
    parts: dict[Budget, _WholePart] = {}
    for chosen in {id(each[0]): each[0] for each in ranked.values()}.values():
        own = [budget for budget in budgets if ranked[budget][0] is chosen]
        predictor, shares = _joint(run, chosen, own)
        for budget in own:
            within = [each for each in ranked[budget] if np.isfinite(each.losses[budget])]
            ranking = [(each.setting.name, each.losses[budget]) for each in within]
            parts[budget] = _WholePart(budget, chosen.setting, predictor, shares, ranking)
    found = [parts[budget] for budget in budgets]
    records = [{"budget": str(e.budget), "pictures": e.setting.name, "ranking": e.ranking} for e in found]
    return _WholeResult([], records=records, parts=found)


def compare_settings(
    run: SearchRun, processor: Any, space: TowerSpace, budgets: Sequence[Budget]
) -> dict[Budget, list[_Candidate]]:
    """The best settings for each budget, best first.

    Cuts by the first scorer are compared on few samples, the best ones then with fewer pixels, and what is best then with the
    other scorers. Few samples flatter the best of many settings, so the finalists, those by the first scorer among them, are
    compared on more.
    """
    model, refused = run.objective.model, ""
    known: dict[PictureSetting, _Candidate | None] = {}

    def candidate(setting: PictureSetting) -> _Candidate | None:
        """None for a setting that the model's tower or its processor refuses."""
        nonlocal refused
        if setting not in known:
            try:
                setting.check(model)
                batches = TowerBatches(run.batches, processor, setting)  # type: ignore[arg-type]
            except (UnsupportedModelError, InvalidInputError) as error:
                known[setting], refused = None, str(error)
            else:
                objectives = {name: _objective(run, setting, name) for name in space.chains}
                known[setting] = _Candidate(setting, batches, objectives)
        return known[setting]

    def ranked(settings: Iterable[PictureSetting], budget: Budget, *, last: bool = False) -> list[_Candidate]:
        usable = [each for setting in settings if (each := candidate(setting)) is not None]
        samples, shapes = (space.samples[-1], 1) if last else (space.samples[0], space.shapes)
        for each in usable:
            losses = shape_losses(each, budget, samples, shapes)
            each.losses[budget] = float(np.inf) if losses is None else float(losses.mean(1).min())
        return sorted(usable, key=lambda each: each.losses[budget])

    first, found = space.settings(family_of(model).tower_shape(model).num_blocks), {}
    for budget in budgets:
        best = ranked(first, budget)[: space.finalists]
        finalists = []
        for variants in (space.smaller, space.chosen_otherwise):
            others = ranked([other for each in best for other in variants(each.setting)], budget)
            best = sorted([*best, *others], key=lambda each: each.losses[budget])[: space.finalists]
            finalists += [each.setting for each in best]
        found[budget] = ranked(dict.fromkeys(finalists), budget, last=True)
        names = ", then ".join(each.setting.name for each in found[budget][:2])
        run.say(f"{budget.label}: of {len(known)} settings of pictures {names}")
    if refused:
        run.say(f"some settings of pictures were left out: {refused}")
    return found


def _objective(run: SearchRun, setting: PictureSetting, chain: str | Chain) -> Objective:
    objective = run.objective.with_chain(setting.join(Chain.of(chain)))
    objective.cost, objective.tower = Exact(objective.cost.dimensions), setting.retention
    return objective


def shape_losses(candidate: _Candidate, budget: Budget, samples: int, shapes: int) -> torch.Tensor | None:
    """The saturating loss of a few shapes of each chain on each sample, [C, M]; None where tower and text are over the budget.

    The best one of each chain is remembered, and is what one shape of it means from then on.
    """
    kernel, kl = joint_kernel(), []
    number = -(-min(samples, len(candidate.batches.samples)) // candidate.batches.batch_size)
    entered = [candidate.batch(place) for place in range(number)]
    cost = next(iter(candidate.objectives.values())).cost
    shares = [torch.from_numpy(_entering_shares(cost, layout, budget.amount)) for _, layout in entered]
    if float(torch.cat(shares).mean()) <= _floor([batch for batch, _ in entered], cost):
        return None
    for name, objective in candidate.objectives.items():
        params = candidate.best.get((budget, name)) if shapes == 1 else None
        if params is None:
            size = median_size([batch for batch, _ in entered])
            pool = chain_shapes(objective, kernel, float(torch.cat(shares).mean()), size)
            params = pool.params[pool.spread(shapes)]
        own = [
            measure_shapes(objective, batch, kernel, params, share, warn=False)
            for (batch, _), share in zip(entered, shares, strict=True)
        ]
        kl.append(saturating_loss(torch.cat(own, dim=1)))
        place = int(kl[-1].mean(1).argmin())
        candidate.best[budget, name] = params[place : place + 1]
    return torch.cat(kl)


def _entering_shares(cost: Cost, layout: Any, budget: float) -> Any:
    """`vispco.pruner.whole_planner.entering_shares`, without its warning: a setting that is over a budget is not chosen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        return entering_shares(cost, layout, budget)


def _floor(batches: Sequence[Any], cost: Cost) -> float:
    floors = [text_floor(batch.num_text, batch.num_visual, cost) for batch in batches]
    return float(torch.cat(floors).mean()) + 1e-3


def _joint(run: SearchRun, chosen: _Candidate, budgets: Sequence[Budget]) -> tuple[JointPredictor, Shares]:
    """The joint search under a setting, at the levels that its budgets come to."""
    spec, setting, batches = run.spec, chosen.setting, chosen.batches
    usable = [chain for chain in spec.chains or (spec.chain,) if setting.retention is None or not chain.needs_vision]
    chains = [setting.join(chain) for chain in usable]
    objective = _objective(run, setting, str(usable[0]))
    entered = [chosen.batch(place) for place in range(min(8, len(batches)))]
    levels = _levels(objective.cost, entered, budgets)
    settings = replace(
        spec.effort.joint,
        levels=levels,
        table_levels=(),
        ranking_levels=(levels[len(levels) // 2],),
        stage_ends=(),
        seed=spec.seed,
    )
    floor = _floor([batch for batch, _ in entered], objective.cost)
    total = settings.expected_passes(len(chains), sum(batches.lengths), (), floor)
    with ProgressBar(total=total, show=run.show) as bar:
        table = measure_joint_table(objective, batches, chains, settings, bar.advance, joint_kernel())
    predictor, held_out = fit_joint_predictor(objective, table)
    for level, kl in held_out.items():
        run.say(
            f"{setting.name}, level {level:.2f}: {table.best(level).name}, KL {kl.static:.3g}, {kl.predictor:.3g} by input"
        )
    shares: dict[tuple[int, ...], tuple[float, float]] = {}  # of each size of a prompt
    for batch, layout in (chosen.batch(place) for place in range(len(batches))):
        rows = zip(batch.observation.sizes[:, :2].tolist(), *prefill_shares(objective.cost, layout), strict=True)
        shares |= {tuple(size): (round(float(spent), 6), round(float(own), 6)) for size, spent, own in rows}
    return predictor, [shares[tuple(size[:2])] for size in predictor.sizes.tolist()]


def _levels(cost: Any, entered: Sequence[Any], budgets: Sequence[Budget]) -> tuple[float, ...]:
    """Levels that serve the budgets: the median of the samples, and for a mean budget some around it."""
    found: set[float] = set()
    for budget in budgets:
        shares = np.concatenate([_entering_shares(cost, layout, budget.amount) for _, layout in entered])
        own = level_of(shares, torch.cat([text_floor(b.num_text, b.num_visual, cost) for b, _ in entered]))
        middle = float(np.median(own))
        ends = [float(np.quantile(own, share)) for share in (0.1, 0.9)]
        factors = (0.3, 0.55, 1.0, 1.6, 2.5) if budget.is_mean else (1.0,)
        found |= {middle * factor for factor in factors} | ({*ends} if ends[1] > 1.5 * ends[0] else set())
    return tuple(sorted({round(min(_MOST_LEVEL, max(_LEAST_LEVEL, level)), 2) for level in found}))
