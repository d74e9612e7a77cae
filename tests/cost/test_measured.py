"""Measured time as a cost: a staircase that is solved for, drops that have a price, and a file that is found again."""

import json
import warnings
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco import cost, kernels
from vispco.core.errors import InvalidInputError
from vispco.cost import BudgetWarning, Dimensions, Measured, TimeProfile, Workload
from vispco.cost.time_profile import ProfileError

L = 6
SIZE = Dimensions(
    num_layers=L, hidden=40, heads=4, kv_heads=2, head_dim=10, ffn=72, gated=True,
    windows=(None,) * L, vocab=9, dtype_bytes=2,
)  # fmt: skip
STAIRS = Measured(SIZE, (8, 32, 33, 64, 65, 128, 129, 256), (1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0), 3.0, 0.5)
PROFILE = TimeProfile(
    dimensions=SIZE, device="cpu 1 threads", dtype="float32", batches=(1, 8), tokens=(8, 64, 256),
    layer_ms=((1.0, 2.0, 6.0), (3.0, 12.0, 48.0)), fixed_ms=(2.0, 9.0), drop_ms=(0.5, 1.0), facts={"model": "toy"},
)  # fmt: skip


def falls(counts, visual):
    return int((np.diff(np.concatenate([[visual], counts])) < 0).sum())


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.2, 1.0), st.integers(1, 30), st.integers(1, 200), st.lists(st.floats(-3, 3), min_size=6, max_size=6),
    st.sampled_from([0.0, 0.5, 4.0]),
)  # fmt: skip
def test_a_budget_of_time_holds_with_the_drops_in_it(budget, text, visual, params, drop):
    priced, kernel = replace(STAIRS, drop_ms=drop), kernels.get("steps")
    workload = Workload([text], [visual])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        counts = cost.counts_for_budget(
            kernel,
            torch.tensor([params], dtype=torch.float64),
            torch.tensor([budget]),
            workload,
            priced,
            gamma=torch.inf,
        )
    fewest = torch.tensor([[visual] + [0] * (L - 1)])  # a scorer may choose from layer 1 on
    floor = min(float(priced.bill(fewest, workload)[0]), float(priced.full(workload)[0]))
    assert floor == float(priced.floor(workload)[0])
    limit = max(budget * float(priced.full(workload)[0]), floor)
    assert float(priced.bill(counts, workload)[0]) <= limit * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(
    st.floats(0.0, 3.5), st.integers(1, 30), st.integers(1, 200), st.lists(st.floats(0, 1), min_size=L, max_size=L),
    st.sampled_from([0.0, 0.01, 0.5, 4.0]), st.integers(0, 3),
)  # fmt: skip
def test_above_the_floor_that_is_stated_no_plan_exceeds_its_budget_and_none_warns(
    above, text, visual, shape, drop, earliest
):
    """`above`: how many drops over the floor a budget lies, or how many tokens where a drop costs nothing."""
    workload, kernel = Workload([text], [visual], "entry", earliest), kernels.get("steps", earliest_layer=earliest)
    curve = torch.tensor([sorted(shape, reverse=True)], dtype=torch.float64)
    for priced in (replace(STAIRS, drop_ms=drop), cost.get("kv-bytes", SIZE)):
        full, floor = float(priced.full(workload)[0]), float(priced.floor(workload)[0])
        budget = torch.tensor([min(1.0, (floor + above * (priced.drop_price or full / visual)) / full)]).double()
        budget = budget.clamp(min=priced.lowest_fraction(workload))
        with warnings.catch_warnings():
            warnings.simplefilter("error", BudgetWarning)
            plans = (
                cost.snap(curve, budget, workload, priced),
                cost.counts_for_budget(kernel, 6 * curve - 3, budget, workload, priced, gamma=torch.inf),
            )
        for counts in plans:
            spent = float(priced.price(counts, workload)[0]) + priced.drop_price * falls(counts[0], visual)
            assert spent <= float(budget[0]) * full * (1 + 1e-14)


def test_what_drops_do_not_leave_for_three_plateaus_goes_to_one():
    line, workload = Measured(SIZE, (0, 1000), (0.0, 100.0), 0.0, 2.0), Workload([10], [200])
    curve = torch.tensor([[1.0, 0.7, 0.7, 0.5, 0.3, 0.3]], dtype=torch.float64)
    budget = (line.floor(workload) + 2.6) / line.full(workload)  # for one more drop, and hardly a token
    counts = cost.snap(curve, budget, workload, line)[0].tolist()
    assert counts == [200, 5, 5, 5, 5, 5], "2.6 ms are 26 tokens in one layer, or 5 in five"


@pytest.mark.parametrize(("text", "layer_ms"), [(0, 0.5), (50, 0.75), (100, 1.0), (200, 1.5), (400, 2.5), (800, 4.5)])
def test_the_lines_of_the_table_go_on_beyond_both_ends(text, layer_ms):
    line = Measured(SIZE, (100, 300, 400), (1.0, 2.0, 2.5), 3.0)
    assert float(line.price(torch.zeros(L, dtype=torch.long), Workload(text, 0))) == pytest.approx(3.0 + L * layer_ms)


def test_a_drop_that_costs_more_than_it_saves_is_not_bought():
    kernel = kernels.get("steps", steps=2)
    params = kernel.initial(L, positions=(1.5, 4.5), heights=(0.5, 0.47))[None]
    workload, budget = Workload([10], [200]), torch.tensor([0.6], dtype=torch.float64)
    line = Measured(SIZE, (0, 1000), (0.0, 100.0))
    cheap, dear = (
        cost.counts_for_budget(kernel, params, budget, workload, replace(line, drop_ms=ms), gamma=torch.inf)[0].tolist()
        for ms in (0.01, 5.0)
    )
    assert falls(cheap, 200) == 2
    assert falls(dear, 200) == 1, "six tokens over two layers save 1.2 ms, a drop takes 5"


def test_counts_climb_to_the_end_of_their_stair():
    kernel = kernels.get("single")
    params = kernel.initial(L, layer=2, r=0.5)[None]
    counts = cost.counts_for_budget(
        kernel, params, torch.tensor([0.7], dtype=torch.float64), Workload([10], [200]), STAIRS, gamma=torch.inf
    )[0]
    assert counts.tolist() == [200, 200, 118, 118, 118, 118], "128 tokens with the text: one more is a stair higher"


def test_more_tokens_never_take_less_time_and_the_line_goes_on():
    N = torch.arange(0, 5000)[:, None].expand(-1, L)
    price = STAIRS.price(N, Workload(0, 0))
    assert bool((price.diff() >= 0).all())
    assert float(price[4000]) >= float(price[300])


def test_a_profile_is_kept_in_the_users_cache_and_found_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = PROFILE.save()
    assert place.is_relative_to(tmp_path / "vispco" / "profiles")
    assert TimeProfile.load(SIZE, "cpu 1 threads", "float32") == PROFILE
    with pytest.raises(InvalidInputError, match="vispco profile MODEL"):
        TimeProfile.load(SIZE, "cpu 2 threads", "float32")


SOUND = {"fixed_ms": (0.0,), "drop_ms": (0.1,), "batches": (1,), "tokens": (8, 16, 32, 64, 128)}
TRUE_TIMES = {
    "in proportion": (0.8, 1.6, 3.2, 6.4, 12.8),
    "quadratic": (0.1, 0.4, 1.6, 6.4, 25.6),
    "hidden by a fixed part": (2.0, 2.0, 2.0, 2.0, 2.1),
    "a stair": (0.5, 0.5, 2.0, 2.0, 4.0),
    "noisy": (0.9, 0.9, 1.1, 6.0, 9.0),
}
FALSE_TIMES = {
    "80 times as long for 4 times the work": (
        {"tokens": (4, 8, 16, 32, 128), "layer_ms": ((0.1, 0.1, 0.1, 0.1, 8.0),)},
        r"0\.1 ms with 32 and 8 ms with 128",
    ),
    "cubic": ({"layer_ms": ((0.01, 0.08, 0.64, 5.12, 41.0),)}, r"0\.01 ms with 8 and 41 ms with 128 tokens"),
    "falling": ({"layer_ms": ((4.0, 3.0, 2.0, 1.0, 0.5),)}, r"4 ms with 8 and 0\.5 ms with 128 tokens"),
    "no time": ({"layer_ms": ((0.0, 0.1, 0.1, 0.2, 0.3),)}, "no time"),
    "negative": ({"layer_ms": ((-1.0, 0.1, 0.1, 0.2, 0.3),)}, "no time"),
    "NaN": ({"layer_ms": ((0.1, float("nan"), 0.1, 0.2, 0.3),)}, "not a number"),
    "a free drop": ({"drop_ms": (0.0,)}, "a drop takes 0 ms in a batch of 1"),
    "a drop that gives time": ({"drop_ms": (-0.1,)}, "a drop takes -0.1 ms"),
    "an endless drop": ({"drop_ms": (float("inf"),)}, "a drop takes inf ms"),
    "a negative rest": ({"fixed_ms": (-1.0,)}, "beside the layers"),
    "a margin of all": ({"margin": (1.0,)}, "margin is 1"),
    "a spread of all": ({"facts": {"spread": [2.5]}}, "more than 250%"),
    "sizes that do not grow": ({"tokens": (8, 8, 32, 64, 128)}, "do not grow"),
    "a time too few": ({"layer_ms": ((0.1, 0.2, 0.3, 0.4),)}, "4 times for 5 sizes"),
    "no drop": ({"drop_ms": ()}, "a time each"),
}


def made(**changed):
    return replace(PROFILE, **{**SOUND, "layer_ms": (TRUE_TIMES["quadratic"],), "facts": {}, **changed})


@pytest.mark.parametrize("times", TRUE_TIMES.values(), ids=TRUE_TIMES)
def test_times_that_a_machine_may_take_are_kept(tmp_path, times):
    assert TimeProfile.read(made(layer_ms=(times,)).save(tmp_path / "profile.json")).layer_ms == (times,)


@pytest.mark.parametrize(("changed", "told"), FALSE_TIMES.values(), ids=FALSE_TIMES)
def test_times_that_no_machine_takes_are_neither_kept_nor_read(tmp_path, changed, told):
    place = tmp_path / "profile.json"
    with pytest.raises(
        ProfileError, match=rf"profile\.json cannot be true: .*{told}.*Run `vispco profile MODEL` again"
    ):
        made(**changed).save(place)
    assert not place.exists()
    data = {**asdict(made(**changed)), "format": "vispco-profile"}
    place.write_text(json.dumps(data))
    with pytest.raises(ProfileError, match=rf"profile\.json cannot be true: .*{told}"):
        TimeProfile.read(place)


def test_a_batch_that_is_much_faster_than_one_sample_is_no_profile(tmp_path):
    both = {"batches": (1, 8), "fixed_ms": (0.0, 0.0), "drop_ms": (0.1, 0.1)}
    row = TRUE_TIMES["quadratic"]
    made(**both, layer_ms=(row, tuple(8 * ms for ms in row))).save(tmp_path / "profile.json")
    with pytest.raises(ProfileError, match=r"with 1 and .* ms with 8 samples of \d+ tokens"):
        made(**both, layer_ms=(row, tuple(ms / 20 for ms in row))).save(tmp_path / "other.json")


@pytest.mark.parametrize(
    "changed",
    [{"tokens": 5}, {"facts": {"spread": ["a"]}}, {"layer_ms": [["a"]]}, {"dimensions": None}, {"drop_ms": None}],
)
def test_a_file_that_is_no_profile_is_named(tmp_path, changed):
    place = tmp_path / "profile.json"
    place.write_text(json.dumps({**asdict(made()), "format": "vispco-profile", **changed}))
    with pytest.raises(InvalidInputError, match=r"profile\.json.*vispco profile MODEL"):
        TimeProfile.read(place)


def test_a_batch_between_two_that_were_measured_lies_between_them():
    for batch, layer, fixed in ((1, 2.0, 2.0), (8, 12.0, 9.0), (16, 24.0, 18.0)):
        made = PROFILE.cost(batch)
        assert made.layer_ms[1] == pytest.approx(layer)
        assert made.fixed_ms == pytest.approx(fixed)
    assert 2.0 < PROFILE.cost(4).layer_ms[1] < 12.0
    assert cost.from_dict(PROFILE.cost(4).to_dict()) == PROFILE.cost(4)


def test_a_table_that_falls_is_refused():
    with pytest.raises(InvalidInputError, match="never fall"):
        Measured(SIZE, (8, 16), (2.0, 1.0))
    with pytest.raises(InvalidInputError, match="vispco profile"):
        Measured(SIZE)


def test_a_count_just_above_a_stair_is_rounded_down_to_it():
    edge = np.array([64, 65, 66, 70, 128, 129, 130, 131, 300])
    assert STAIRS.host_stairs(edge).tolist() == [64, 64, 66, 70, 128, 128, 128, 131, 300], "two of a hundred at most"
    tokens = np.array([101, 102, 103, 110, 99])
    sharp = Measured(SIZE, (8, 100, 102, 200), (1.0, 2.0, 3.0, 3.2), 3.0, 0.5)
    assert sharp.host_stairs(tokens).tolist() == [100, 100, 103, 110, 99]


def test_what_is_rounded_down_to_a_stair_is_faster_and_lacks_few_tokens():
    sharp = Measured(SIZE, (8, 100, 102, 200), (1.0, 2.0, 3.0, 3.2), 3.0, 0.5)
    kernel, workload = kernels.get("single"), Workload([10], [180])
    params = kernel.initial(L, layer=2, r=0.5)[None]
    for share in np.arange(0.70, 0.95, 0.01):
        budget = torch.tensor([share], dtype=torch.float64)
        counts = cost.counts_for_budget(kernel, params, budget, workload, sharp, gamma=torch.inf)[0]
        assert int(counts[-1]) + 10 not in (101, 102), "a token or two more would take half a layer more"
        assert float(sharp.bill(counts[None], workload)[0]) <= share * float(sharp.full(workload)[0]) + 1e-9
