"""Evolution, three shares by a Gaussian process, TPE over chains and curves: on problems whose best is known."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compare.searches.synthetic_search import LAYERS, ChainEvaluator, SyntheticEvaluator, holds, make_sizes
from vispco.compare.searches import Calibration, get, run_search
from vispco.compare.searches.bayesian import _fitted_steps, _suggest_steps, _three_stages
from vispco.compare.searches.evolution import _constant_rate, _cross, _mutate
from vispco.compare.searches.rival import solve_curve
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.cost import Workload
from vispco.search.joint.space import default_chains

CURVES = st.lists(st.floats(0, 1), min_size=5, max_size=5).map(lambda r: tuple(sorted(r, reverse=True)))


@given(CURVES, CURVES, st.integers(0, 2**16), st.integers(0, 2))
def test_children_are_curves_that_never_grow_and_keep_full_what_must_be(one, other, seed, first):
    one, other = ((1.0,) * first + curve[first:] for curve in (one, other))
    for child in (_mutate(one, np.random.default_rng(seed), first), _cross(one, other)):
        Schedule(child)  # refuses one that grows or leaves [0, 1]
        assert child[:first] == (1.0,) * first


def test_the_first_generation_drops_at_a_constant_rate():
    assert _constant_rate(0.5, 4, 1) == (1.0, 0.5, 0.25, 0.125)
    known = SyntheticEvaluator()
    get("evolution", trials=1).search(known, 0.5)
    assert known.calls == [known.sizes.fit(Schedule(_constant_rate(0.9, LAYERS, 1)), 0.5)]


def test_evolution_improves_on_its_first_generation_and_repeats_itself():
    known = SyntheticEvaluator()
    found = get("evolution", trials=40).search(known, 0.5)
    best = known.quality(found.deploy(known.sizes))
    assert best > max(known.quality(call) for call in known.calls[:4])
    assert best == max(map(known.quality, known.calls))
    again = get("evolution", trials=40).search(SyntheticEvaluator(), 0.5)
    assert again.schedule == found.schedule
    other = get("evolution", trials=40, seed=1).search(SyntheticEvaluator(), 0.5)
    assert other.schedule != found.schedule


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 30), st.integers(1, 80), st.floats(0.05, 1.0))
def test_the_largest_number_that_fits_is_the_one_that_a_loop_finds(text, visual, budget):
    sizes = make_sizes((text,), (visual,))
    size = Workload([text], [visual])
    slope = torch.linspace(1.0, 0.2, LAYERS, dtype=torch.float64)
    found = solve_curve(lambda number: number[..., None] * slope, budget, size, sizes.cost)[0] / slope
    limit = budget * float(sizes.cost.full(size))
    fitting = [n for n in np.linspace(0, 1, 201) if float(sizes.cost.relaxed((n * slope)[None], size)) <= limit]
    wanted = max(fitting, default=0.0)
    assert wanted - 1e-9 <= float(found[0]) <= wanted + 0.005 + 1e-9


@pytest.mark.parametrize("budget", [0.45, 0.5])
def test_the_last_of_three_shares_meets_the_budget(budget):
    sizes = make_sizes(chain="random")
    curve = _three_stages(0.8, 0.5, budget, sizes)
    spent = float(sizes.cost.relaxed(curve.tensor()[None], sizes.typical) / sizes.cost.full(sizes.typical))
    assert spent == pytest.approx(budget, abs=1e-6)
    assert curve.retention[0] == 0.8
    assert len(set(curve.retention)) <= 3
    dear = _three_stages(1.0, 1.0, 0.1, sizes)
    assert dear.retention[-1] == 0.0, "the rest is cut when it is fitted to each sample"


def test_a_gaussian_process_comes_near_to_the_best_three_shares():
    known = ChainEvaluator(sizes=make_sizes(chain="random"))
    found = get("vflowopt", trials=12).search(Calibration(known, measure="kl"), 0.5)
    sizes = known.sizes
    grid = [
        sizes.fit(_three_stages(a, b, 0.5, sizes), 0.5)
        for a in np.linspace(0.1, 1, 10)
        for b in np.linspace(0.1, 1, 10)
    ]
    pruner = found.deploy(sizes)
    assert str(pruner.chain) == "divprune+fastv"
    assert known.quality(pruner.schedule) >= max(map(known.quality, grid)) - 0.03
    assert holds(pruner.schedule, sizes, 0.5)


def test_tpe_finds_the_chain_that_is_better_and_knows_all_of_them():
    known = ChainEvaluator({"cdpruner+v2drop": 5.0}, sizes=make_sizes(chain="vtw@1"))
    run = run_search("tpe-joint", Calibration(known, measure="kl"), (0.4, 0.7), seed=0)
    assert run.evaluations <= 48
    for found in run.candidates.values():
        assert found.provenance["chain"] in {str(chain) for chain in default_chains()}
    many = run_search(get("tpe-joint", trials=80), Calibration(known, measure="kl"), (0.5,))
    assert many.candidates[0.5].provenance["chain"] == "cdpruner+v2drop"
    assert str(many.candidates[0.5].deploy(None).chain) == "cdpruner+v2drop"


class Drawn:
    """A trial that draws at random."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def suggest_int(self, _, low, high):
        return int(self.rng.integers(low, high + 1))

    def suggest_float(self, _, low, high):
        return float(self.rng.uniform(low, high))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**16), st.sampled_from([0.45, 0.6, 0.9]), st.sampled_from([0, 1]))
def test_every_suggested_curve_meets_the_budget_on_every_sample(seed, budget, first):
    sizes = make_sizes(chain=f"random@{first}")
    schedule = _fitted_steps(_suggest_steps(Drawn(seed), LAYERS), sizes, budget)
    assert holds(schedule, sizes, budget)
    rows = schedule.counts(sizes.num_visual.tolist())
    assert all(len(set(row.tolist())) <= 5 for row in rows)


def test_a_chain_whose_first_layers_are_too_dear_is_not_measured():
    known = ChainEvaluator(sizes=make_sizes((1, 1), (200, 200)))
    run = run_search("tpe-joint", Calibration(known, measure="kl"), (0.1,))
    assert run.candidates[0.1].deploy(None).chain.earliest_layer == 0
    assert run.evaluations < 24


def test_bad_settings_are_refused_by_name():
    for name, given_settings in [
        ("tpe-joint", {"samples": 0}),
        ("vflowopt", {"startup": 0}),
        ("vflowopt", {"scorer": "fastv"}),
        ("evolution", {"parents": 1}),
        ("btp-layers", {"stages": 0}),
        ("autoprune", {"k0": -1.0}),
        ("scaled", {"samples": 0}),
    ]:
        with pytest.raises(InvalidInputError, match=r"were given|was given"):
            get(name, **given_settings)


@pytest.mark.parametrize("name", ["autoprune", "btp-layers", "downsample"])
def test_a_search_that_reads_a_model_says_that_it_needs_one(name):
    with pytest.raises(InvalidInputError, match="TaskEvaluator"):
        get(name).search(SyntheticEvaluator(), 0.5)
