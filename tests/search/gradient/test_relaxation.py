"""The relaxation: hard in value, the paper's gradient, right at both ends and in every limit."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.scorers.base import ranks
from vispco.search.gradient.relaxation import GaussianMask, soft_threshold, standardised

LAW = settings(max_examples=40, deadline=None)


def layout_of(live):
    return TokenLayout.build(torch.nn.functional.pad(live, (0, 1)))


def descending(n, seed=0, batch=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n, generator=generator, dtype=torch.float64).sort(-1, descending=True).values


def mask_of(scores, live, retention, sigma=2.0, temperature=0.1, *, even=False):
    relaxation = GaussianMask(sigma, temperature, even=even)
    relaxation.begin(layout_of(live))
    counts = (retention.detach() * live.sum(-1) + 0.5).floor().long()
    keep = (ranks(scores, live) < counts[:, None]) & live
    return relaxation(scores, live, keep, retention), keep


@LAW
@given(st.integers(1, 40), st.floats(0.0, 1.0), st.floats(0.1, 12.0), st.integers(0, 100))
def test_the_mask_is_the_hard_choice_to_the_bit(n, retention, sigma, seed):
    scores = torch.rand(2, n, generator=torch.Generator().manual_seed(seed))
    live = torch.ones(2, n, dtype=torch.bool)
    r = torch.tensor([retention, 0.5], requires_grad=True)
    mask, keep = mask_of(scores, live, r, sigma)
    assert torch.equal(mask, keep.float())


@LAW
@given(st.integers(3, 60), st.floats(0.05, 0.95), st.floats(0.3, 10.0), st.integers(0, 100))
def test_the_thresholds_gradient_is_the_papers_closed_form(n, share, sigma, seed):
    s = descending(n, seed)
    kept = torch.tensor([share * n], dtype=torch.float64, requires_grad=True)
    tau = soft_threshold(s, torch.tensor([n]), kept, sigma)
    (found,) = torch.autograd.grad(tau.sum(), kept)
    # Eq. gradient_tau, over the ranks that the sum runs over (reflected ones included), by a naive loop
    k, values, weights, places = share * n, [], [], []
    for j in range(round(k) - math.ceil(4 * sigma) - 1, round(k) + math.ceil(4 * sigma) + 2):
        values.append(reflected(s[0].tolist(), j))
        weights.append(math.exp(-((j - k) ** 2) / (2 * sigma**2)))
        places.append(j)
    total = sum(weights)
    expected_tau = sum(w * v for w, v in zip(weights, values, strict=True)) / total
    closed = sum(
        w * (j - k) * (v - expected_tau) / (sigma**2 * total) for w, v, j in zip(weights, values, places, strict=True)
    )
    assert tau.item() == pytest.approx(expected_tau, abs=1e-9)
    assert found.item() == pytest.approx(closed, rel=1e-6, abs=1e-9)


def reflected(s, j):
    """s_j by walking: outside of 1..n, mirror at the nearer end and flip about its value, until inside."""
    n = len(s)
    sign, shift = 1.0, 0.0
    while not 1 <= j <= n:
        end = 1 if j < 1 else n
        shift += sign * 2 * s[end - 1]
        sign, j = -sign, 2 * end - j
    return shift + sign * s[j - 1]


@LAW
@given(st.integers(4, 40), st.floats(0.1, 0.9), st.floats(0.5, 6.0), st.integers(0, 50))
def test_the_thresholds_gradient_is_that_of_finite_differences(n, share, sigma, seed):
    s, count = descending(n, seed), torch.tensor([n])
    k = share * n
    if abs(k - round(k)) > 0.49:  # there the window of summed ranks moves on by one
        k += 0.1
    kept = torch.tensor([k], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(soft_threshold(s, count, kept, sigma).sum(), kept)
    step = 1e-5
    above, below = (soft_threshold(s, count, kept.detach() + d, sigma) for d in (step, -step))
    assert found.item() == pytest.approx(((above - below) / (2 * step)).item(), rel=1e-4, abs=1e-6)


def test_the_straight_through_gradient_is_its_closed_form():
    torch.manual_seed(0)
    n, T = 30, 0.3
    scores, live = torch.rand(1, n), torch.ones(1, n, dtype=torch.bool)
    upstream = torch.randn(1, n)
    r = torch.tensor([0.4], requires_grad=True)
    mask, _ = mask_of(scores, live, r, temperature=T)
    (found,) = torch.autograd.grad((mask * upstream).sum(), r)
    s = standardised(scores, live)
    kept = (r.detach() * n).requires_grad_()
    tau = soft_threshold(s.sort(-1, descending=True).values, torch.tensor([n]), kept, 2.0)
    (slope,) = torch.autograd.grad(tau.sum(), kept)
    soft = torch.sigmoid((s - tau.detach()) / T)
    wanted = -(upstream * soft * (1 - soft) / T).sum() * slope * n  # Eq. ste_gradient, then k~ = r N_v
    assert found.item() == pytest.approx(wanted.item(), rel=1e-4)


@pytest.mark.parametrize("k", [1, 2, 7, 19, 20])
def test_with_sigma_to_zero_the_threshold_is_the_hard_one(k):
    s = descending(20, 3)
    for off in (0.0, 0.3, -0.3):
        tau = soft_threshold(s, torch.tensor([20]), torch.tensor([k + off], dtype=torch.float64), 1e-3)
        assert tau.item() == pytest.approx(s[0, k - 1].item(), abs=1e-9)


def test_with_temperature_to_zero_the_soft_mask_is_the_hard_one():
    s = descending(20, 4)
    tau = soft_threshold(s, torch.tensor([20]), torch.tensor([7.5], dtype=torch.float64), 0.5)
    soft = torch.sigmoid((s - tau[:, None]) / 1e-6)
    assert torch.equal(soft.round(), (s >= tau[:, None]).double())
    assert bool(((soft < 1e-6) | (soft > 1 - 1e-6)).all())


@pytest.mark.parametrize("sigma", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("k", [0.0, 0.5, 1.0, 10.0, 24.5, 25.0])
def test_scores_linear_in_rank_are_met_without_bias_at_both_ends(sigma, k):
    n = 25
    s = (3.0 - 0.2 * torch.arange(1, n + 1, dtype=torch.float64))[None]
    tau = soft_threshold(s, torch.tensor([n]), torch.tensor([k], dtype=torch.float64), sigma)
    # the sum is cut at 4 sigma around the nearest rank, which is all that is left of a bias
    assert tau.item() == pytest.approx(3.0 - 0.2 * k, abs=0.2 * sigma * 3e-3)


@LAW
@given(st.integers(2, 40), st.floats(0.5, 10.0), st.integers(0, 50))
def test_the_ends_are_the_best_and_the_worst_score_for_any_scores(n, sigma, seed):
    s, count = descending(n, seed), torch.tensor([n])
    ends = [soft_threshold(s, count, torch.tensor([k], dtype=torch.float64), sigma).item() for k in (0.0, 1.0, n)]
    assert ends[0] >= ends[1] - 1e-9
    assert ends[1] == pytest.approx(s[0, 0].item(), abs=1e-9)
    assert ends[2] == pytest.approx(s[0, -1].item(), abs=1e-9)


def test_one_more_token_moves_the_soft_mask_by_one_token():
    n = 400
    scores = torch.linspace(-2, 2, n).exp()[None]
    live = torch.ones(1, n, dtype=torch.bool)
    for share in (0.2, 0.5, 0.8):
        r = torch.tensor([share], requires_grad=True)
        mask, _ = mask_of(scores, live, r, sigma=10.0)
        (found,) = torch.autograd.grad(mask.sum(), r)
        assert found.item() / n == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("gap", [0.0, 1.0, 15.0])
@pytest.mark.parametrize("share", [0.1, 0.45, 0.5, 0.9])
def test_the_even_mask_moves_by_one_token_however_the_scores_lie(gap, share):
    n = 40
    scores = (torch.linspace(1.0, -1.0, n) + gap * (torch.arange(n) < n // 2)).exp()[None]
    r = torch.tensor([share], requires_grad=True)
    mask, keep = mask_of(scores, torch.ones(1, n, dtype=torch.bool), r, sigma=1.0, temperature=0.01, even=True)
    assert torch.equal(mask, keep.float())
    (found,) = torch.autograd.grad(mask.sum(), r, retain_graph=True)
    assert found.item() / n == pytest.approx(1.0, rel=1e-5)
    near = torch.arange(n).sub(share * n).abs() <= 8
    (around,) = torch.autograd.grad(mask[0, near].sum(), r)
    assert around.item() / n > 0.9  # at the threshold, not anywhere


def test_the_papers_mask_moves_by_many_tokens_or_none_around_a_gap():
    n = 40
    scores = (torch.linspace(1.0, -1.0, n) + 15.0 * (torch.arange(n) < n // 2)).exp()[None]
    moved = []
    for share in (0.45, 0.5, 0.55):
        r = torch.tensor([share], requires_grad=True)
        mask, _ = mask_of(scores, torch.ones(1, n, dtype=torch.bool), r, sigma=2.0)
        moved += [g.item() / n for g in torch.autograd.grad(mask.sum(), r)]
    assert min(moved) < 0.1
    assert max(moved) > 2.0


def test_nothing_is_learned_where_all_tokens_stay_or_no_token_is_live():
    live = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    scores = torch.rand(2, 6)
    r = torch.tensor([1.0, 0.5], requires_grad=True)
    relaxation = GaussianMask(1.0, 0.5)
    relaxation.begin(layout_of(torch.ones(2, 6, dtype=torch.bool)))
    keep = (ranks(scores, live) < torch.tensor([[6], [3]])) & live
    mask = relaxation(scores, live, keep, r)
    (first,) = torch.autograd.grad(mask[0].sum(), r, retain_graph=True)
    (dead,) = torch.autograd.grad(mask[1, 3:].sum(), r, retain_graph=True)
    (alive,) = torch.autograd.grad(mask[1, :3].sum(), r)
    assert first[0] == 0
    assert dead[1] == 0
    assert alive[1] > 0


def test_the_scale_of_the_scores_does_not_matter():
    torch.manual_seed(0)
    scores, live = torch.rand(1, 12), torch.ones(1, 12, dtype=torch.bool)
    grads = []
    for factor in (1.0, 1e-4):
        r = torch.tensor([0.5], requires_grad=True)
        mask, _ = mask_of(scores * factor, live, r)
        grads += torch.autograd.grad((mask * torch.arange(12)).sum(), r)
    assert torch.allclose(*grads, rtol=1e-3)


@pytest.mark.parametrize("scores", [[0.0, 0.0, 0.0, 0.0], [-1.0, 0.5, 0.2, -3.0], [0.0, 1.0, 1e-30, 0.3]])
def test_any_finite_scores_give_finite_gradients(scores):
    r = torch.tensor([0.5], requires_grad=True)
    mask, _ = mask_of(torch.tensor([scores]), torch.ones(1, 4, dtype=torch.bool), r, sigma=10.0)
    (found,) = torch.autograd.grad(mask.sum(), r)
    assert bool(found.isfinite().all())


def test_a_width_of_zero_is_refused():
    with pytest.raises(InvalidInputError, match="above 0"):
        GaussianMask(sigma=0.0)
