"""IPCV: what leaves inside the vision tower is rebuilt at its end, so that the language model sees as many tokens as ever."""

import pytest
import torch

import tiny
from engine.test_tower_cut import FAMILIES, ONE, QWEN, TWO, last_logits, patches_of_cells, pooled
from methods.tower import DEPTH, deep
from vispco import Pruner, Schedule
from vispco.core.errors import InvalidInputError
from vispco.families import family_of
from vispco.families.tower_modules import tower_modules
from vispco.pruner.planner_kinds import read_schedule
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain

L = tiny.LAYERS
CHAIN = "ipcv@tower.1+divprune"


def schedule(stages, rest=None):
    return (rest or Schedule.full(L)).with_tower(stages, DEPTH, rebuilt=True)


def watched(modules, found):
    """Hooks that note what modules are handed; before a pruner's own if they are set before it."""
    return [m.register_forward_pre_hook(lambda m, args: found.update({m: args[0].detach().clone()})) for m in modules]


def naive_rebuild(old, new, kept):
    """Cell by cell: old [n, cell, D] where cells left, new [n, cell, D] at the end, of which those of kept places are known."""
    means, found = old.mean(1), new.clone()
    for place in range(len(old)):
        if place not in kept:
            near = sorted(kept, key=lambda each: float((means[each] - means[place]).norm()))[:10]
            found[place] = old[place] + sum(new[each] - old[each] for each in near) / len(near)
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_what_left_has_changed_as_its_nearest_neighbours_have(name):
    model, given = deep(name), tiny.inputs(name, [[tiny.words(2, 1), tiny.picture(5, 5), tiny.words(6, 2)]])
    parts = tower_modules(model, model.model)
    end, block, entering, ending = parts.ends[0], parts.blocks[1], {}, {}
    handles, one = watched([parts.blocks[0], block], entering), Pruner(CHAIN, schedule({1: 0.7}))
    with one(model):
        handles += watched([end], ending)
        last_logits(model, given)
        kept = one.tower_survivors(model)[1][0].nonzero()[:, 0].tolist()
        counts = one.token_counts(model)
    for handle in handles:
        handle.remove()
    grids = [(1, 5, 5)] if name in QWEN else [(1, 4, 4)]
    cells = patches_of_cells(name, grids)
    first, old, new = (
        each.view(-1, each.shape[-1]) for each in (entering[parts.blocks[0]], entering[block], ending[end])
    )
    shift = len(new) - len(old)  # the class token does not reach the projector
    old, first = (torch.stack([each[patches] for _, patches in cells]) for each in (old, first))
    new = torch.stack([new[[patch + shift for patch in patches]] for _, patches in cells])
    change = (old.mean(1) - first.mean(1)).norm(dim=-1)
    assert set(kept) == set(change.topk(len(kept)).indices.tolist())
    assert 1 < len(kept) < len(cells)
    torch.testing.assert_close(new, naive_rebuild(old, new, kept), atol=2e-5, rtol=1e-4)
    assert counts.tolist() == [[len(cells)] * L]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_rebuilt_tower_that_loses_nothing_is_bit_identical(name):
    model, given = deep(name), tiny.inputs(name, [ONE, TWO])
    whole = last_logits(model, given)
    with Pruner(CHAIN, Schedule((1.0,) * L, (1.0,) * DEPTH, rebuilt=True))(model):
        assert torch.equal(last_logits(model, given), whole)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "llava", "idefics3"])
def test_packed_pictures_are_rebuilt_as_each_alone(name):
    model, parts = deep(name), [tiny.picture(5, 5), tiny.picture(2, 7)]
    several = tiny.inputs(name, [[tiny.words(1, 1), *parts, tiny.words(4, 2)]])
    with Pruner(CHAIN, schedule({1: 0.8, 2: 0.5}))(model), torch.no_grad():
        packed, start = pooled(model, several, name), 0
        for number, part in enumerate(parts):
            alone = tiny.inputs(name, [[tiny.words(1, 1), part, tiny.words(4, 2)]])
            pixels = several["pixel_values"]
            if name in QWEN:
                ends = [0, *several["image_grid_thw"].prod(-1).cumsum(0).tolist()]
                alone["pixel_values"] = pixels[ends[number] : ends[number + 1]]
            else:
                alone["pixel_values"] = (
                    pixels[:, number : number + 1] if pixels.dim() == 5 else pixels[number : number + 1]
                )
            found = pooled(model, alone, name)
            torch.testing.assert_close(packed[start : start + len(found)], found, atol=2e-5, rtol=1e-4)
            start += len(found)


def test_the_language_model_may_still_drop_and_budgets_hold():
    model, given = deep("qwen2_5_vl"), tiny.inputs("qwen2_5_vl", [TWO])
    whole = tiny.prefill_flops(model, given)
    with Pruner("ipcv@tower.1+fastv", schedule({1: 0.5}, Schedule.single(2, 0.6, L)))(model) as pruned:
        last_logits(pruned, given)
    for budget in (0.7, 0.85):
        pruner = PrunerSpec.choose(scorer="ipcv@tower.1+divprune", budget=f"{budget}p").resolve(model)
        with pruner(model):
            assert tiny.prefill_flops(model, given) <= budget * whole
            assert family_of(model).layout(model, given).num_visual == (26,)


def test_schedules_and_chains_say_whether_what_left_comes_back(tmp_path):
    found = read_schedule("tower:1=0.5+single:2:0.8", L, DEPTH, rebuilt=True)
    assert found.retention == (1.0, 1.0, 0.8, 0.8)
    found.save(tmp_path / "schedule.json")
    assert Schedule.load(tmp_path / "schedule.json") == found
    with pytest.raises(InvalidInputError, match=r"Give Schedule\.with_tower\(\.\.\., rebuilt=False\)"):
        Pruner("divprune@tower.1+fastv", found)
    with pytest.raises(InvalidInputError, match="all scorers rebuild, or none"):
        Chain.of("divprune@tower.1+ipcv@tower.2")
    with pytest.raises(InvalidInputError, match="reads what the block before has computed"):
        Chain.of("ipcv@tower.0")
    assert str(Chain.of("ipcv@tower.2")) == "ipcv@tower.2+divprune"
