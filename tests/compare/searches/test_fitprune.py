"""FitPrune's walk against its definition, one token at a time."""

import itertools

import pytest
import torch

from compare.searches.conftest import evaluator
from compare.searches.synthetic_search import LAYERS, SyntheticEvaluator, holds, make_sizes
from vispco.compare.searches import SampleSizes, get
from vispco.compare.searches.fitprune_search import _bisect, _dispensable, _ReceivedAttention, _recipe, _walk
from vispco.core.errors import InvalidInputError


def random_attention(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    S, V = len(sizes), int(sizes.num_visual.max())
    present = torch.arange(V) < sizes.num_visual[:, None]
    cross, own = (
        torch.rand(S, LAYERS, V, generator=generator, dtype=torch.float64) ** 4 * present[:, None] for _ in range(2)
    )
    return _ReceivedAttention(cross, own, present, torch.full((S,), 5))


def naive_dispensable(mass, live, alpha):
    """mass: a list; live: a set of places. The largest low-score set without which (1 - alpha) of all mass is left."""
    ranked = sorted(live, key=lambda place: (mass[place], place))
    left, gone = sum(mass[place] for place in live), set()
    for place in ranked:
        left -= mass[place]
        if left < (1 - alpha - 1e-9) * sum(mass):
            break
        gone.add(place)
    return gone


def naive_walk(found, sizes, budget, alpha):
    live = [set(range(int(n))) for n in sizes.num_visual]
    counts = [[len(tokens)] * LAYERS for tokens in live]
    for layer in range(LAYERS):
        if float(sizes.fractions(torch.tensor(counts)).mean()) <= budget:
            return True, counts
        if layer == LAYERS - 1:
            return False, counts
        for s, tokens in enumerate(live):
            cross, own = found.cross[s, layer].tolist(), found.own[s, layer].tolist()
            tokens.difference_update(naive_dispensable(cross, tokens, alpha) & naive_dispensable(own, tokens, alpha))
            counts[s][layer + 1 :] = [len(tokens)] * (LAYERS - layer - 1)
    return None


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.3, 0.7, 1.0])
def test_dispensable_tokens_are_the_most_that_may_go(alpha):
    generator = torch.Generator().manual_seed(3)
    mass = torch.rand(6, 20, generator=generator, dtype=torch.float64)
    live = torch.rand(6, 20, generator=generator) < 0.7
    got = _dispensable(mass, live, alpha)
    for s in range(6):
        wanted = naive_dispensable(mass[s].tolist(), set(live[s].nonzero()[:, 0].tolist()), alpha)
        assert set(got[s].nonzero()[:, 0].tolist()) == wanted


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("budget", [0.4, 0.7])
def test_a_walk_is_that_of_the_naive_loop(alpha, budget):
    sizes = make_sizes()
    found = random_attention(sizes)
    met, counts = _walk(found, sizes, budget, alpha)
    assert (met, counts.tolist()) == naive_walk(found, sizes, budget, alpha)


@pytest.mark.parametrize("budget", [0.4, 0.5, 0.8])
def test_bisection_finds_the_least_alpha_that_an_exhaustive_loop_finds(budget):
    sizes = make_sizes((4, 3), (24, 16))
    found = random_attention(sizes)
    alpha, counts = _bisect(found, sizes, budget, 0.01)
    least = next(step / 200 for step in range(201) if naive_walk(found, sizes, budget, step / 200)[0])
    assert least - 1 / 200 <= alpha <= least + 0.01
    assert counts.tolist() == naive_walk(found, sizes, budget, alpha)[1]


def test_the_recipe_is_the_mean_share_that_is_kept():
    sizes = make_sizes((5, 5), (10, 100))
    counts = torch.tensor([[10, 8, 8, 4, 4], [100, 60, 50, 50, 0]])
    assert _recipe(counts, sizes).retention == pytest.approx((1.0, 0.7, 0.65, 0.45, 0.2))


@pytest.mark.parametrize("scorer", ["fastv", "fitprune"])
def test_on_a_model_the_recipe_meets_the_budget_and_its_one_pass_is_billed(scorer):
    calibration = evaluator(scorer=scorer)
    sizes = SampleSizes.of(calibration)
    found = get("fitprune").search(calibration, 0.5)
    deployed = found.deploy(sizes)
    assert holds(deployed, sizes, 0.5)
    assert sizes.fraction(deployed) > 0.48
    assert all(after <= before for before, after in itertools.pairwise(found.schedule.retention))
    assert found.evaluations == 0
    assert found.spent.teacher == float(sizes.cost.full(sizes.workload).sum())
    assert 0 < found.spent.measured < found.spent.teacher
    assert get("fitprune").search(calibration, 0.5).schedule == found.schedule


def test_an_evaluator_without_a_model_is_refused():
    with pytest.raises(InvalidInputError, match="no model"):
        get("fitprune").search(SyntheticEvaluator(), 0.5)
