"""From a joint table to a predictor that remembers it; the language model does not run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vispco.planning.configurations import Configurations
from vispco.planning.instruction_groups import BANDWIDTH, as_group_points, drawn_to_the_mean
from vispco.planning.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.planning.memory import bounded
from vispco.search.joint.choosing import choose_configurations
from vispco.search.joint.joint_table import JointTable
from vispco.search.joint.space import joint_kernel
from vispco.search.objective import Objective
from vispco.search.table.kl_table import HeldOutKl


def fit_joint_predictor(objective: Objective, table: JointTable) -> tuple[JointPredictor, dict[float, HeldOutKl]]:
    """A predictor that remembers a table by the kinds of its instructions. Also its held-out KL by level.

    At each level the configurations are kept whose choice, each sample left out once, loses least.
    """
    configurations, groups = table.configurations, table.groups
    kept, held_out = torch.zeros(len(configurations), dtype=torch.bool), {}
    loss = torch.empty_like(table.kl)
    for level in configurations.levels:
        columns = (configurations.level == level).nonzero()[:, 0]
        kl = table.measured(columns)
        choice = choose_configurations(kl, groups)
        kept[columns[choice.columns]] = True
        held_out[level] = HeldOutKl(*(float(each.mean()) for each in (choice.static, choice.predictor, choice.oracle)))
        loss[:, columns] = drawn_to_the_mean(bounded(kl), groups)
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
    bandwidth = torch.full((len(configurations),), BANDWIDTH)
    predictor.memory.remember(table.observation, loss, bandwidth, lambda points: as_group_points(points, groups))
    predictor.sizes.copy_(table.observation.sizes)
    return predictor.to(objective.model.device).eval(), held_out


def _copy(predictor: Any, configurations: Configurations, kept: Tensor) -> None:
    predictor.params.copy_(configurations.params)
    predictor.chain.copy_(configurations.chain)
    predictor.level.copy_(configurations.level)
    predictor.kept.copy_(kept)
