"""PixelPrune inside the vision tower: cells that repeat their neighbours leave before block 0."""

import numpy as np
import pytest
import torch

import tiny
from methods.tower import DEPTH, deep
from vispco import Pruner, Schedule
from vispco.core.errors import InvalidInputError
from vispco.cost import Exact
from vispco.cost.dimensions import Dimensions

L = tiny.LAYERS
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "gemma3", "internvl", "idefics3", "smolvlm")
SIDES = {"llava": 4, "gemma3": 4, "internvl": 2, "idefics3": 2, "smolvlm": 2}  # cells of a square's side


def page(name, seed):
    """A prompt with a picture of few different cells, and the kind of each cell: int [rows, columns]."""
    generator, square = np.random.default_rng(seed), name in SIDES
    rows, columns = (SIDES[name],) * 2 if square else (5, 6)
    kinds = generator.integers(0, 2, (rows, columns))
    given = tiny.inputs(name, [[tiny.words(2, 1), tiny.picture(rows, columns), tiny.words(6, 2)]])
    pixels, shown = given["pixel_values"], torch.from_numpy(kinds).flatten()
    if not square:
        drawn = torch.randn(2, 4, pixels.shape[-1], generator=torch.Generator().manual_seed(seed))
        given["pixel_values"] = drawn[shown].reshape(pixels.shape)
        return given, kinds
    side = pixels.shape[-1] // rows
    drawn = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(seed))
    cells = drawn[shown].view(rows, columns, 3, side, side).permute(2, 0, 3, 1, 4)
    given["pixel_values"] = cells.reshape(3, rows * side, columns * side).expand_as(pixels).contiguous()
    return given, kinds


def prediction(grid, row, column):
    """What the cells before foretell of one: the rule, cell by cell; None where there are none."""
    left = grid[row][column - 1] if column else None
    above = grid[row - 1][column] if row else None
    corner = grid[row - 1][column - 1] if row and column else None
    if left is None or above is None:
        return above if left is None else left
    return above if corner == left and corner != above else left


def repeats(kinds):
    places = [(row, column) for row in range(len(kinds)) for column in range(len(kinds[0]))]
    return [kinds[row][column] == prediction(kinds, row, column) for row, column in places]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", FAMILIES)
def test_what_repeats_leaves_first_and_a_decoder_could_write_it_again(name, seed):
    model, (given, kinds) = deep(name), page(name, seed)
    gone = repeats(kinds.tolist())
    assert 0 < sum(gone) < len(gone) - 1
    keep = (len(gone) - sum(gone)) / len(gone)
    one = Pruner("pixelprune@tower.0+divprune", Schedule.full(L).with_tower({0: keep}, DEPTH))
    with one(model), torch.no_grad():
        model(**given)
        kept = one.tower_survivors(model)[0][0].tolist()
    assert kept == [not each for each in gone]
    written = [[None] * len(kinds[0]) for _ in kinds]
    for place, stays in enumerate(kept):
        row, column = divmod(place, len(kinds[0]))
        written[row][column] = kinds[row][column] if stays else prediction(written, row, column)
    assert written == kinds.tolist()


@pytest.mark.parametrize("name", ["qwen2_5_vl", "gemma3"])
def test_the_schedule_says_how_many_stay_and_flops_are_exact(name):
    model, (given, kinds) = deep(name), page(name, 0)
    fresh, cost = [not each for each in repeats(kinds.tolist())], Exact(Dimensions.from_config(model.config))
    for count in (sum(fresh) - 2, sum(fresh) + 3):
        one = Pruner("pixelprune@tower.0+divprune", Schedule.full(L).with_tower({0: count / len(fresh)}, DEPTH))
        with one(model), torch.no_grad():
            counted = tiny.prefill_flops(model, given)
            kept = one.tower_survivors(model)[0][0]
            spent = int(one.tower_flops(model)) + int(cost.bill(one.token_counts(model), one.workload(model)))
        assert counted == spent
        assert kept.sum() == count
        assert bool((kept & torch.tensor(fresh)).sum() == min(count, sum(fresh)))


def test_pixels_that_differ_by_less_than_the_tolerance_are_the_same():
    model, (given, kinds) = deep("llava"), page("llava", 0)
    noise = torch.rand(given["pixel_values"].shape, generator=torch.Generator().manual_seed(3))
    given["pixel_values"] = given["pixel_values"] + 0.01 * noise
    fresh = [not each for each in repeats(kinds.tolist())]
    schedule = Schedule.full(L).with_tower({0: sum(fresh) / 16}, DEPTH)
    kept = {}
    for tolerance in (0.0, 0.02):
        one = Pruner(f"pixelprune(tolerance={tolerance})@tower.0+divprune", schedule)
        with one(model), torch.no_grad():
            model(**given)
            kept[tolerance] = one.tower_survivors(model)[0][0].tolist()
    assert kept[0.02] == fresh != kept[0.0]
    with pytest.raises(InvalidInputError, match="0 or more"):
        Pruner("pixelprune(tolerance=-1)@tower.0+divprune", schedule)
