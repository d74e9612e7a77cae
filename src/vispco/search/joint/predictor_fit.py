"""From a joint table to a predictor that remembers it; the language model does not run.

An input is known by its kind of instruction (`planning.instruction_groups`) or by the samples that are most like it. A few
hundred samples tell kinds apart, and no more; with a thousand, neighbours say more than kinds do. Which of the two it is, how
near a neighbour must be, and between which configurations of a level an input may choose is decided on left-out samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vispco.planning.configurations import Configurations
from vispco.planning.instruction_groups import BANDWIDTH, as_group_points, drawn_to_the_mean, left_out_means
from vispco.planning.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.planning.memory import Memory, bounded
from vispco.planning.similarity import similarity_weights
from vispco.search.joint.choosing import ConfigurationChoice, choose_configurations
from vispco.search.joint.joint_table import JointTable
from vispco.search.joint.space import joint_kernel
from vispco.search.objective import Objective
from vispco.search.table.kl_table import HeldOutKl

BANDWIDTHS = (0.02, 0.05, 0.12, 0.25, 0.6, 1.2)
"""How far similarity may reach; see `planning.similarity`."""


@dataclass(frozen=True, eq=False)
class LevelFit:
    """The configurations of a level, by their columns in the table: which are kept, and what is remembered of them.

    remembered: bounded loss [M, k]. bandwidth: with which it is read.
    """

    columns: Tensor
    choice: ConfigurationChoice
    remembered: Tensor
    bandwidth: float


Fits = dict[float, LevelFit]


def fit_joint_predictor(objective: Objective, table: JointTable) -> tuple[JointPredictor, dict[float, HeldOutKl]]:
    """A predictor that remembers a table. Also its held-out KL by level."""
    configurations, groups = table.configurations, table.groups
    by_groups, by_neighbours = fit_by_groups(table), fit_by_neighbours(table)
    neighbours = _relative_loss(by_neighbours) < _relative_loss(by_groups)
    fits = by_neighbours if neighbours else by_groups
    kept, held_out = torch.zeros(len(configurations), dtype=torch.bool), {}
    loss, bandwidth = torch.empty_like(table.kl), torch.empty(len(configurations))
    for level, fit in fits.items():
        choice = fit.choice
        kept[fit.columns[choice.columns]] = True
        loss[:, fit.columns], bandwidth[fit.columns] = fit.remembered, fit.bandwidth
        held_out[level] = HeldOutKl(*(float(each.mean()) for each in (choice.static, choice.predictor, choice.oracle)))
    config = JointPredictorConfig(
        hidden=objective.cost.dimensions.hidden,
        anchors=len(configurations),
        samples=len(loss),
        kernel=joint_kernel(servable=table.servable).config(),
        servable=table.servable,
        chains=[chain.to_dict() for chain in configurations.chains],
        cost=objective.cost.to_dict(),
    )
    predictor = JointPredictor(config)
    _copy(predictor, configurations, kept)
    predictor.memory.remember(
        table.observation, loss, bandwidth, lambda points: points if neighbours else as_group_points(points, groups)
    )
    predictor.sizes.copy_(table.observation.sizes)
    return predictor.to(objective.model.device).eval(), held_out


def fit_by_groups(table: JointTable) -> Fits:
    """Inputs are known by their kinds of instruction."""
    found = {}
    for level, columns in _columns(table):
        kl = table.measured(columns)
        choice = choose_configurations(kl, left_out_means(bounded(kl), table.groups))
        found[level] = LevelFit(columns, choice, drawn_to_the_mean(bounded(kl), table.groups), BANDWIDTH)
    return found


def fit_by_neighbours(table: JointTable) -> Fits:
    """Inputs are known by the samples that are most like them, at each level within the distance that serves it best."""
    samples = len(table.kl)
    memory = Memory(table.observation.visual.shape[-1] // 2, samples, 1)
    memory.remember(table.observation, torch.zeros(samples, 1), torch.ones(1))
    weights = {each: similarity_weights(memory.keys, memory.keys, each, leave_out_self=True) for each in BANDWIDTHS}
    found = {}
    for level, columns in _columns(table):
        kl = table.measured(columns)
        loss = bounded(kl)
        estimates = {each: own @ loss for each, own in weights.items()}
        choices = {each: choose_configurations(kl, estimate) for each, estimate in estimates.items()}
        best = min(choices, key=lambda each: choices[each].loss)
        if len(choices[best].columns) == 1:  # nothing to choose: what counts is how hard a sample is
            column = choices[best].columns[0]
            best = min(estimates, key=lambda each: float((estimates[each] - loss)[:, column].square().mean()))
        found[level] = LevelFit(columns, choices[best], loss, best)
    return found


def _columns(table: JointTable) -> list[tuple[float, Tensor]]:
    configurations = table.configurations
    return [(level, (configurations.level == level).nonzero()[:, 0]) for level in configurations.levels]


def _relative_loss(fits: Fits) -> float:
    """What the choices lose on left-out samples, of what one configuration for all loses; the sum over levels."""
    return sum(fit.choice.loss / max(1e-12, float(bounded(fit.choice.static).mean())) for fit in fits.values())


def _copy(predictor: Any, configurations: Configurations, kept: Tensor) -> None:
    predictor.params.copy_(configurations.params)
    predictor.chain.copy_(configurations.chain)
    predictor.level.copy_(configurations.level)
    predictor.kept.copy_(kept)
