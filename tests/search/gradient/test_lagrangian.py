"""The augmented Lagrangian: y is eliminated exactly, known problems are solved, Algorithm 1 keeps its promises."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco.core.errors import InvalidInputError
from vispco.search.gradient.lagrangian import AugmentedLagrangian, LagrangianSettings, penalty

numbers = st.floats(-3.0, 3.0)


@settings(max_examples=200, deadline=None)
@given(numbers, st.floats(0.0, 5.0), st.floats(0.1, 200.0))
def test_the_penalty_is_the_minimum_over_y_of_the_equality_form(h, w, lam):
    y2 = torch.cat([torch.linspace(0, 10, 20001, dtype=torch.float64), torch.tensor([max(0.0, h - w / lam)])])
    whole = -w * (h - y2) + lam / 2 * (h - y2).square()  # Eq. our_augmented_lagrangian, less the objective
    found = penalty(*(torch.tensor(v, dtype=torch.float64) for v in (h, w, lam)))
    assert found.item() == pytest.approx(whole.min().item(), rel=1e-9, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(numbers, st.floats(0.0, 5.0), st.floats(0.1, 200.0))
def test_the_penaltys_slope_is_minus_z(h, w, lam):
    given_h = torch.tensor(h, dtype=torch.float64, requires_grad=True)
    penalty(given_h, *torch.tensor([w, lam], dtype=torch.float64)).backward()
    assert given_h.grad.item() == pytest.approx(-max(0.0, w - lam * h), rel=1e-9, abs=1e-9)


PROBLEMS = {  # objective, h(x) >= 0, start, solution, multiplier
    "active": (lambda x: (x - 2).square().sum(), lambda x: 1 - x.sum(), [0.0, 0.0], [0.5, 0.5], 3.0),
    "slack": (lambda x: (x - 2).square().sum(), lambda x: 5 - x.sum(), [0.0, 0.0], [2.0, 2.0], 0.0),
    "infeasible start": (lambda x: x.square().sum(), lambda x: x[0] - 1, [-3.0, 1.0], [1.0, 0.0], 2.0),
    # a concave objective: stationary points of the plain Lagrangian are maxima, the penalty's are minima
    "non-convex": (lambda x: -(x[0] * x[1]), lambda x: 2 - x[0] - x[1], [0.3, 0.2], [1.0, 1.0], 1.0),
}


def solved(objective, constraint, start, settings_=None, rounds=40):
    x = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    aug = AugmentedLagrangian(settings_ or LagrangianSettings(lam=2.0, alpha=2.0, beta=0.5, epsilon=1e-5))
    zero = torch.zeros(1, dtype=torch.long)
    for _ in range(rounds):
        inner = torch.optim.LBFGS([x], max_iter=100, line_search_fn="strong_wolfe")

        def closure(inner=inner):
            inner.zero_grad()
            loss = objective(x) + aug.penalty(constraint(x)[None], zero).mean()
            loss.backward()
            return loss

        inner.step(closure)
        if aug.update(aug.statistics(constraint(x).detach()[None], zero)):
            break
    return x.detach(), aug


@pytest.mark.parametrize("name", PROBLEMS)
def test_known_problems_are_solved(name):
    objective, constraint, start, solution, multiplier = PROBLEMS[name]
    x, aug = solved(objective, constraint, start)
    assert bool(aug.converged.all())
    assert x.tolist() == pytest.approx(solution, abs=1e-3)
    assert aug.w.item() == pytest.approx(multiplier, abs=1e-2)


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_independent_solver_finds_the_same(name):
    cooper = pytest.importorskip("cooper")
    objective, constraint, start, _, _ = PROBLEMS[name]
    ours, aug = solved(objective, constraint, start)

    class Problem(cooper.ConstrainedMinimizationProblem):
        def __init__(self):
            super().__init__()
            self.constraint = cooper.Constraint(
                cooper.ConstraintType.INEQUALITY,
                formulation_type=cooper.formulations.AugmentedLagrangian,
                multiplier=cooper.multipliers.DenseMultiplier(num_constraints=1, dtype=torch.float64),
                penalty_coefficient=cooper.penalty_coefficients.DensePenaltyCoefficient(
                    torch.tensor(4.0, dtype=torch.float64)
                ),
            )

        def compute_cmp_state(self, x):
            violation = -constraint(x).reshape(1)  # cooper's sign: violated where positive
            return cooper.CMPState(
                loss=objective(x), observed_constraints={self.constraint: cooper.ConstraintState(violation=violation)}
            )

    problem = Problem()
    x = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = cooper.optim.AlternatingDualPrimalOptimizer(
        problem,
        primal_optimizers=torch.optim.SGD([x], lr=0.02),
        dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=1.0, maximize=True),
    )
    for _ in range(1500):
        optimizer.roll(compute_cmp_state_kwargs={"x": x})
    (multiplier,) = problem.dual_parameters()
    assert ours.tolist() == pytest.approx(x.tolist(), abs=5e-3)
    assert aug.w.item() == pytest.approx(multiplier.item(), abs=5e-2)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=6), min_size=1, max_size=12))
def test_algorithm_1_keeps_its_invariants(rounds):
    options = LagrangianSettings(lam=10.0, alpha=3.0, beta=0.5, epsilon=0.01, cap=500.0)
    aug = AugmentedLagrangian(options)
    for h in rounds:
        before_w, before_lam, before_violation = aug.w.clone(), aug.lam.clone(), aug.violation.clone()
        values = torch.tensor(h, dtype=torch.float64)
        done = aug.update(aug.statistics(values, torch.zeros(len(h), dtype=torch.long)))
        assert bool((aug.w >= 0).all())
        assert bool((aug.lam >= before_lam).all())
        assert bool((aug.lam <= options.cap).all())
        assert aug.w.item() == pytest.approx(max(0.0, (before_w - before_lam * values.mean()).item()))
        grew = bool(aug.lam > before_lam)
        stalled = aug.violation >= 0.5 * before_violation and aug.violation >= options.epsilon
        assert grew == (bool(stalled) and bool(before_lam < options.cap))
        assert done == bool(aug.violation < options.epsilon)


def test_over_and_under_spending_do_not_cancel():
    aug = AugmentedLagrangian(LagrangianSettings(w=1.0))
    h = torch.tensor([0.2, -0.2])
    assert aug.penalty(h, torch.zeros(2, dtype=torch.long)).mean() > 0.5
    assert not aug.update(aug.statistics(h, torch.zeros(2, dtype=torch.long)))


def test_every_bin_has_its_own_price_and_a_bin_unseen_stays_as_it_was():
    aug = AugmentedLagrangian(LagrangianSettings(lam=10.0), bins=4)
    bins = aug.bin_of(torch.tensor([0.1, 0.3, 0.3, 1.0]))
    assert bins.tolist() == [0, 1, 1, 3]
    aug.update(aug.statistics(torch.tensor([-0.1, 0.1, 0.1, -0.3]), bins))
    assert aug.w.tolist() == pytest.approx([1.0, 0.0, 0.0, 3.0])
    assert aug.violation[2] == torch.inf


def test_statistics_of_parts_add_up_to_those_of_the_whole():
    aug = AugmentedLagrangian(LagrangianSettings(w=0.5), bins=3)
    h, bins = torch.randn(10), torch.randint(0, 3, (10,))
    parts = sum(aug.statistics(h[i::2], bins[i::2]) for i in range(2))
    assert torch.allclose(parts, aug.statistics(h, bins))


def test_its_state_goes_to_disk_and_back():
    aug = AugmentedLagrangian(LagrangianSettings(), bins=2)
    aug.update(aug.statistics(torch.tensor([-0.1, 0.2]), torch.tensor([0, 1])))
    again = AugmentedLagrangian(LagrangianSettings(), bins=2)
    again.load_state_dict(aug.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(aug.state_dict().values(), again.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    "wrong", [{"lam": 0.0}, {"alpha": 1.0}, {"beta": 1.0}, {"epsilon": 0.0}, {"w": -1.0}, {"cap": 1.0}]
)
def test_settings_that_algorithm_1_does_not_allow_are_refused(wrong):
    with pytest.raises(InvalidInputError):
        LagrangianSettings(**wrong)
