"""The cost model's figures are what a pruned model really multiplies, to the digit."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tiny import BUILDERS, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule, cost
from vispco.families import family_of
from vispco.scorers.cost import workload_under

SAMPLE = (words(3, 1), picture(3, 5), words(6, 2))
SCHEDULES = [(1.0, 1.0, 1.0, 1.0), (1.0, 0.7, 0.3, 0.3), (1.0, 1.0, 0.5, 0.0)]


@torch.no_grad()
def counted(model, x, pruner=None):
    """FLOPs of the decoder layers as torch counts them. Eager: the counter does not see CPU sdpa's products."""
    with nullcontext() if pruner is None else pruner(model):
        model(**x)  # at the first prefill of a model what is read of it is checked, which is counted by nobody
        with FlopCounterMode(display=False) as counter:
            model(**x)
    per_module = counter.get_flop_counts()
    name = next(n for n in per_module if n.endswith((".language_model", ".text_model")))
    total = sum(per_module[name].values())
    assert total == sum(
        sum(v.values())
        for k, v in per_module.items()
        if k.startswith(f"{name}.layers.") and k.count(".") == name.count(".") + 2
    )
    return total


@cache
def counted_unpruned(family):
    return counted(build(family, "eager"), inputs(family, [SAMPLE]))


@pytest.mark.parametrize("retention", SCHEDULES)
@pytest.mark.parametrize("family", BUILDERS)
@pytest.mark.parametrize("scorer", ["fastv", "sparsevlm", "fitprune", "random"])
def test_exact_flops_equal_what_torch_counts(scorer, family, retention):
    model, x = build(family, "eager"), inputs(family, [SAMPLE])
    layout = family_of(model).layout(model, x)
    visual, text = layout.num_visual[0], layout.num_text[0]
    exact, pruner = cost.get("exact", model.config), Pruner(scorer, Schedule(retention))
    counts = pruner.schedule.counts([visual])
    workload = workload_under(pruner.chain, exact.dimensions, [text], [visual], layout.num_instruction)
    assert counted(model, x, pruner) == int(exact.bill(counts, workload)[0])
    assert counted_unpruned(family) == int(exact.full(workload)[0])
    if scorer == "random":
        assert torch.equal(exact.bill(counts, workload), exact.price(counts, workload))


def test_a_pruned_prefill_is_cheaper_by_what_the_schedule_says():
    model, x = build("llava", "eager"), inputs("llava", [SAMPLE])
    full, half = counted(model, x), counted(model, x, Pruner("random", Schedule.single(1, 0.0, LAYERS)))
    exact = cost.get("exact", model.config)
    fraction = exact.fraction(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), cost.Workload(9, 16))
    assert half / full == pytest.approx(float(fraction), abs=1e-12)
