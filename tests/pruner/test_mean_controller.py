"""A mean that holds: on any traffic the mean over any 256 inputs is the one that was asked for, and the cap holds for each."""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import tiny
from vispco import InvalidInputError, Pruner
from vispco.core.layout import TokenLayout
from vispco.cost import BudgetWarning, get
from vispco.evaluation.candidate import CandidateRun
from vispco.pruner.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.pruner.mean_budget import MOST_DEBT, WINDOW, MeanController, MultiplierLadder
from vispco.pruner.observation import join_observations, observe
from vispco.pruner.picture_setting import PictureSetting
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.pruner.whole_planner import WholePlanner
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under
from vispco.search.joint.space import joint_kernel

D, KINDS, LEVELS = 32, 4, (0.05, 0.15, 0.3, 0.5, 0.8)
NEED = (0.05, 0.5, 1.5, 4.0)  # how much a kind of input loses without tokens
MEAN, CAP = 0.35, 0.6
BUDGET = f"mean:{MEAN},max:{CAP}"
CENTRES = torch.randn(KINDS, D, generator=torch.Generator().manual_seed(0))


def inputs(kinds, seed=0, text=8, visual=64):
    """Prompts of some kinds of instruction as a planner sees them: a layout and embeddings [B, N, D]."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.tensor([[False] * 2 + [True] * visual + [False] * (text - 2)]).expand(len(kinds), -1)
    states = torch.randn(len(kinds), text + visual, D, generator=generator) * 0.3
    return TokenLayout.build(mask), states + CENTRES[list(kinds)][:, None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved pruner whose predictor remembers 64 samples of four kinds, of which the last needs most tokens."""
    place = tmp_path_factory.mktemp("saved")
    cost, chain, kernel = get("exact", tiny.build("qwen2_5_vl").config), Chain.of("divprune"), joint_kernel()
    kinds = [number % KINDS for number in range(64)]
    seen = join_observations([observe(*inputs([kind], seed)) for seed, kind in enumerate(kinds)])
    loss = torch.tensor([[NEED[kind] * np.exp(-4.0 * level) for level in LEVELS] for kind in kinds]).float()
    config = JointPredictorConfig(
        D, len(LEVELS), len(kinds), kernel.config(), [chain.to_dict()], cost.to_dict()
    )  # fmt: skip
    predictor = JointPredictor(config)
    shape = kernel.initial(cost.num_layers, positions=[-0.5, 1.5, 2.5], heights=[0.5, 0.4, 0.3])
    predictor.params.copy_(shape.expand(len(LEVELS), -1))
    predictor.level.copy_(torch.tensor(LEVELS))
    predictor.sizes.copy_(seen.sizes)
    predictor.memory.fit(seen, loss, torch.full((len(LEVELS),), 0.1))
    predictor.save_pretrained(place / "predictor")
    PrunerSpec(chain, {"kind": "joint", "folder": "predictor"}, budget=BUDGET, cost=cost.to_dict()).save(
        place / "pruner.json"
    )
    return place


def spend(planner, kinds, batch_size=1, seed=100, **sizes):
    """What a stream of inputs spends, as fractions of the unpruned cost, billed apart from the planner."""
    found = []
    for start in range(0, len(kinds), batch_size):
        layout, states = inputs(kinds[start : start + batch_size], seed + start, **sizes)
        plan = planner(layout, states)
        columns = (torch.from_numpy(column.copy()) for column in layout.prompt_sizes.T)
        planning = torch.tensor(plan.planning_flops)
        load = workload_under(planner.chain, planner.cost.dimensions, *columns, planning_flops=planning)
        found += (planner.cost.bill(plan.counts, load) / planner.cost.full(load)).tolist()
    return np.array(found)


def running_means(spent):
    sums = np.concatenate([[0.0], np.cumsum(spent)])
    return (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW


STREAMS = {
    "easy": [0] * 320,
    "hard": [3] * 320,
    "sorted": [kind for kind in range(KINDS) for _ in range(160)],
    "sorted the other way": [kind for kind in reversed(range(KINDS)) for _ in range(160)],
    "from one end to the other": [0] * 300 + [3] * 300,
    "mixed": np.random.default_rng(0).integers(0, KINDS, 400).tolist(),
}


@pytest.mark.parametrize("batch_size", [1, 7, 32])
@pytest.mark.parametrize("stream", STREAMS)
def test_the_mean_of_any_256_inputs_is_within_5_per_cent(folder, stream, batch_size):
    planner = Pruner.from_pretrained(folder).schedule
    spent = spend(planner, STREAMS[stream], batch_size)
    assert np.abs(running_means(spent) / MEAN - 1).max() <= 0.05
    assert spent.max() <= CAP + 1e-9


@settings(deadline=None, max_examples=10)
@given(st.lists(st.tuples(st.integers(0, KINDS - 1), st.integers(1, 200)), min_size=2, max_size=6), st.integers(1, 16))
def test_it_holds_on_traffic_of_any_runs(folder, runs, batch_size):
    kinds = [kind for kind, length in runs for _ in range(length)]
    planner = Pruner.from_pretrained(folder).schedule
    spent = spend(planner, kinds, batch_size)
    controller = planner.controller
    assert abs(controller.debt) < MOST_DEBT
    assert controller.debt * MEAN == pytest.approx(float((spent - MEAN).sum()), abs=1e-6)
    assert controller.running_mean == pytest.approx(spent[-WINDOW:].mean())
    if len(spent) >= WINDOW:
        assert np.abs(running_means(spent) / MEAN - 1).max() <= 0.05


TOWERS = (4.0, 2.0, 1.0, 0.5)  # FLOPs of a kind's tower, of its language model


def whole_spend(planner, kinds):
    """What a stream of inputs whose towers differ spends of the whole prefill, input by input."""
    found = []
    for number, kind in enumerate(kinds):
        layout, states = inputs([kind], 100 + number)
        full = int(planner.cost.full(workload_under(planner.chain, planner.cost.dimensions, *sizes_of(layout))))
        layout = replace(layout, tower=lambda _, kind=kind, full=full: np.array([round(TOWERS[kind] * full)]))
        plan = planner(layout, states)
        load = workload_under(
            planner.chain, planner.cost.dimensions, *sizes_of(layout), planning_flops=torch.tensor(plan.planning_flops)
        )
        spent = float(planner.cost.bill(plan.counts, load)) / full
        found.append((TOWERS[kind] + spent) / (TOWERS[kind] + 1))
    return np.array(found)


def sizes_of(layout):
    return (torch.from_numpy(column.copy()) for column in layout.prompt_sizes.T)


def whole_planner(folder, shares, mean, *, controlled):
    """A planner of the whole prefill with whole towers, for the same samples."""
    controller = MeanController(mean) if controlled else None
    predictor = JointPredictor.from_pretrained(folder / "predictor")
    return WholePlanner(predictor, f"mean:{mean}p,max:0.95p", PictureSetting(), shares, controller)


SHARES = [(tower / (tower + 1), 1 / (tower + 1)) for tower in (TOWERS[number % KINDS] for number in range(64))]


@pytest.mark.parametrize("stream", ["hard", "mixed", "from one end to the other"])
def test_the_mean_of_the_whole_prefill_is_kept_too(folder, stream):
    kinds = STREAMS[stream]
    mean = 0.6 if stream == "hard" else 0.75  # a tower alone may be above it
    spent = whole_spend(whole_planner(folder, SHARES, mean, controlled=True), kinds)
    after = spent[len(kinds) // 2 :] if stream == "from one end to the other" else spent
    assert abs(after[-WINDOW:].mean() / mean - 1) <= 0.05


def test_calibration_samples_count_by_their_share_of_the_whole_prefill(folder):
    """The inputs that need most tokens have the smallest towers: with mean shares they would spend too much."""
    kinds, mean = [number % KINDS for number in range(256)], 0.7
    means = [tuple(np.array(SHARES).mean(axis=0))]
    own, by_mean = (
        whole_spend(whole_planner(folder, each, mean, controlled=False), kinds).mean() for each in (SHARES, means)
    )
    assert abs(own / mean - 1) < 0.01 < abs(by_mean / mean - 1)


def test_without_it_the_mean_drifts_and_a_plan_depends_on_its_input_alone(folder):
    pruner = Pruner.from_pretrained(folder, controller="none")
    assert pruner.controller is None
    drift = [np.abs(running_means(spend(pruner.schedule, STREAMS[name])) / MEAN - 1).max() for name in ("easy", "hard")]
    assert min(drift) > 0.1
    assert np.array_equal(spend(pruner.schedule, [3] * 9, seed=7)[:5], spend(pruner.schedule, [3] * 5, seed=7))


def test_it_begins_with_the_price_that_was_fixed(folder):
    first = [
        Pruner.from_pretrained(folder, controller=name).schedule(*inputs([2])).counts for name in ("none", "integral")
    ]
    assert (first[0] - first[1]).abs().max() <= 1  # budgets are rounded down, so that plans come again


def test_evaluations_are_without_it_whatever_the_order(folder):
    pruner = Pruner.from_pretrained(folder)
    run = CandidateRun(pruner, pruner.chain, 4, 8)
    assert run.plan.controller is None
    assert pruner.controller is not None
    assert np.array_equal(spend(run.plan, [3, 0]), spend(pruner.schedule.uncontrolled, [3, 0]))
    assert pruner.controller.debt == 0.0


def test_its_state_is_saved_with_the_pruner_and_belongs_to_one_mean(folder, tmp_path):
    pruner = Pruner.from_pretrained(folder)
    spend(pruner.schedule, [3] * 40)
    debt = pruner.controller.debt
    assert debt > 0.5
    pruner.save_pretrained(tmp_path)
    assert Pruner.from_pretrained(tmp_path).controller.debt == debt
    assert Pruner.from_pretrained(tmp_path, controller="integral").controller.debt == debt
    assert Pruner.from_pretrained(tmp_path, budget="mean:0.3,max:0.6").controller.debt == 0.0
    assert Pruner.from_pretrained(tmp_path, budget=0.4).controller is None
    off = Pruner.from_pretrained(tmp_path, controller="none")
    off.save_pretrained(tmp_path / "off")
    assert Pruner.from_pretrained(tmp_path / "off").controller is None
    assert Pruner.from_pretrained(tmp_path / "off", controller="integral").controller.debt == 0.0
    with pytest.raises(InvalidInputError, match=r"controller='pid' was given.*integral, none"):
        Pruner.from_pretrained(tmp_path, controller="pid")


def test_threads_share_it_and_nothing_is_lost(folder):
    planner, found = Pruner.from_pretrained(folder).schedule, []

    def work(seed):
        found.append(spend(planner, [seed % KINDS] * 24, seed=1000 * seed))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = np.concatenate(found)
    assert len(spent) == 8 * 24
    assert planner.controller.debt * MEAN == pytest.approx(float((spent - MEAN).sum()), abs=1e-6)


def test_traffic_that_cannot_meet_the_mean_is_forgotten_in_time(folder):
    planner = Pruner.from_pretrained(folder).schedule
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        spent = spend(planner, [3] * 60, text=80, visual=16)
    assert spent.min() > 1.5 * MEAN
    assert MOST_DEBT - 0.1 < planner.controller.debt <= MOST_DEBT
    after = spend(planner, [1] * (WINDOW + 40))
    assert np.abs(running_means(after) / MEAN - 1).max() <= 0.05


def test_inputs_without_a_picture_do_not_count(folder):
    planner = Pruner.from_pretrained(folder).schedule
    mask = torch.zeros(2, 24, dtype=torch.bool)
    mask[0, 2:18] = True
    planner(TokenLayout.build(mask), torch.randn(2, 24, D))
    assert planner.controller.running_mean <= CAP  # of the one with a picture; the other spends all of its cost


def test_a_controller_without_a_search_is_refused():
    with pytest.raises(InvalidInputError, match="without --pruner"):
        PrunerSpec.choose(method="fastv", budget=0.5, controller="none")


def test_a_ladder_has_the_fixed_multiplier_and_grows():
    from vispco.pruner.mean_budget import KlCurves, solve_multiplier

    rng = np.random.default_rng(0)
    estimate = rng.random((200, 1)) * np.exp(-4.0 * np.array(LEVELS)) * 3
    curves = KlCurves.of(estimate, np.array(LEVELS), np.full(200, 0.1), CAP)
    base = solve_multiplier(curves, 0.3)
    ladder = MultiplierLadder.of(curves, base, 0.3)
    assert len(ladder.multipliers) > 5
    assert (np.diff(ladder.means) > 0).all()
    assert (np.diff(ladder.multipliers) < 0).all()
    assert ladder.means[ladder.place] == 0.3
    table = ladder.spend(curves)
    assert np.array_equal(table[:, ladder.place], curves.spend(base))
    for place, one in enumerate(ladder.multipliers):
        if place != ladder.place:
            assert np.array_equal(table[:, place], curves.spend(float(one)))
    assert MeanController(0.3, float("nan")).debt == 0.0
