"""The search at one level: trials are measured once, on as many samples as they deserve, and move between levels."""

from dataclasses import replace

import pytest
import torch

import tiny
from search.random_batches import make_batches
from vispco.pruner.kernel_regression import saturating_loss
from vispco.scorers import Chain
from vispco.search.joint.anchor_selection import is_gain
from vispco.search.joint.chain_objectives import ChainObjectives
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.joint.level_search import LevelSearch
from vispco.search.joint.space import chain_shapes, joint_kernel
from vispco.search.objective import Objective

SETTINGS = JointSettings(
    levels=(0.4, 0.7),
    ranking_levels=(0.7,),
    table_levels=(),
    rungs=(3, 6, 9),
    shapes=3,
    chains=2,
    neighbours=4,
    shortlist=(4, 2),
    anchors=2,
)
CHAINS = tuple(Chain.of(name) for name in ("divprune", "divprune+fastv", "cdpruner+fastv"))


@pytest.fixture(scope="module")
def ground():
    return ChainObjectives(Objective(tiny.build("qwen2_5_vl"), "fastv"), CHAINS), make_batches(count=3)


def level_search(ground, level=0.4, **settings):
    return LevelSearch(*ground, level, replace(SETTINGS, **settings), lambda *_: None)


def test_a_shape_of_a_chain_has_every_scorer_drop_tokens():
    size = torch.tensor([[8, 16, 8, 0]])
    for name in ("divprune+fastv", "cdpruner+v2drop"):
        pool = chain_shapes(Objective(tiny.build("qwen2_5_vl"), name), joint_kernel(), 0.5, size)
        assert bool((pool.curves[:, 0] < 1).all())
        assert bool((pool.curves[:, -1] < pool.curves[:, 0]).all())


def test_trials_are_measured_once_and_the_better_ones_on_more_samples(ground):
    chains, batches = ground
    search = level_search(ground, shapes=6, shortlist=(8, 4))  # half as many at this budget
    search.measure_chains(CHAINS)
    first = list(search.trials.values())
    assert {len(trial.kl) for trial in first} == {len(batches[0])}
    spent = chains.objective.spent.measured
    search.add_trials(first)
    assert chains.objective.spent.measured == spent
    search.promote()
    by_rung = {look: [t for t in search.trials.values() if t.rung == look] for look in range(3)}
    kept = [search.settings.at(size, search.budget) for size in (8, 4)]
    assert kept[0] > kept[1] > 1
    assert [len(by_rung[1]), len(by_rung[2])] == [kept[0] - kept[1], kept[1]]
    assert {len(trial.kl) for trial in by_rung[2]} == {sum(map(len, batches))}
    assert search.best(2) == sorted(by_rung[2], key=lambda trial: float(saturating_loss(trial.kl).mean()))[:2]


def test_a_level_takes_over_what_another_found(ground):
    low, high = level_search(ground, 0.3), level_search(ground, 0.6)
    high.measure_chains(CHAINS[1:2])
    best = high.best(1)[0]
    low.add_trials([best], rung=2)
    moved = low.best(1)[0]
    assert moved.chain == best.chain
    assert torch.equal(moved.params, best.params)
    assert len(moved.kl) == sum(map(len, ground[1]))
    assert int(moved.counts.sum()) < int(best.counts.sum())  # solved to the lower level


def test_new_shapes_are_those_near_the_best_and_the_best_one_under_other_chains(ground):
    search = level_search(ground)
    search.measure_chains(CHAINS[1:2])
    before = set(search.trials)
    search.measure_neighbours()
    near = [trial for key, trial in search.trials.items() if key not in before and trial.rung == 0]
    assert near
    assert {trial.chain for trial in near} == {CHAINS[1]}
    best = search.best(1)[0]
    search.try_chains(CHAINS)
    swapped = [trial for trial in search.trials.values() if trial.rung == 0 and trial.chain != CHAINS[1]]
    assert [trial.chain for trial in swapped] == [CHAINS[2]]  # the other one has no second scorer
    assert torch.equal(swapped[0].params, best.params)
    dearer = best.counts - swapped[0].counts  # the same shape; what the other scorer costs more is paid in tokens
    assert int(dearer.min()) >= 0
    assert int(dearer.sum()) <= 2


def test_a_chain_that_keeps_layers_full_is_looked_at_where_that_leaves_something(ground):
    chains = ChainObjectives(ground[0].objective, [*CHAINS, Chain.of("fastv")])
    for level, worth in ((0.2, False), (0.9, True)):
        search = level_search((chains, ground[1]), level)
        search.measure_chains(list(chains.objectives))
        assert (Chain.of("fastv") in dict(search.chain_ranking)) is worth


@pytest.mark.parametrize(("budget", "number"), [(0.1, 12), (0.5, 8), (0.7, 6), (1.0, 4)])
def test_fewer_configurations_are_measured_where_they_are_dear_and_more_where_cheap(budget, number):
    assert JointSettings().at(8, budget) == number
    assert JointSettings().at(1, budget) == 1


@pytest.mark.parametrize("sure", [-1e9, 1e9])
def test_a_level_tries_compensations_on_its_best_and_the_best_of_them_on_the_shortlist(ground, monkeypatch, sure):
    """All trials of a level are without one where none gains more than its error."""
    monkeypatch.setattr("vispco.search.joint.level_search.is_gain", lambda _, errors: errors > 0 and sure < 0)
    search = level_search(ground, compensations=(0.5, 1.0, -0.5))
    search.measure_chains(CHAINS)
    best, before = search.best(1)[0], set(search.trials)
    search.compensate()
    if sure > 0:
        assert set(search.trials) == before
        return
    tried = [t for t in search.trials.values() if torch.equal(t.params, best.params)]
    tried = [t for t in tried if t.chain.with_compensation(0.0) == best.chain]
    first = len(ground[1][0])  # where they are chosen; the best one and none are compared on all samples
    loss = {t.chain.compensate: float(saturating_loss(t.kl[:first]).mean()) for t in tried}
    assert set(loss) == ({0.0, 0.5, 1.0} if loss[1.0] < loss[0.0] else {0.0, 1.0, -0.5})
    assert len(set(loss.values())) == 3, "a compensation changed nothing"
    found = min((beta for beta in loss if beta), key=loss.__getitem__)
    assert {beta for beta in loss if len(next(t for t in tried if t.chain.compensate == beta).kl) > first} == {
        0.0,
        found,
    }
    others = [t for key, t in search.trials.items() if key not in before and t not in tried]
    assert {t.chain.compensate for t in others} == {found}


def test_a_compensation_must_gain_more_than_its_error(ground):
    clear, noise = torch.full((48,), 0.1) + 0.01 * torch.randn(48), torch.randn(48)
    assert is_gain(clear, 2.0)
    assert not is_gain(noise - noise.mean() + 0.1, 2.0)
    unchanged = level_search(ground, compensations=())
    unchanged.measure_chains(CHAINS)
    before = set(unchanged.trials)
    unchanged.compensate()
    assert set(unchanged.trials) == before


def test_a_level_whose_best_chain_shares_no_batch_keeps_one_that_does(ground):
    chains = ChainObjectives(ground[0].objective, [Chain.of("fitprune"), *CHAINS])
    search = level_search((chains, ground[1]), 0.7, anchors=2)
    search.measure_chains(list(chains.objectives))
    lost = {True: 0.1, False: 0.5}
    search.trials = {
        key: replace(trial, kl=torch.full_like(trial.kl, lost[trial.chain == Chain.of("fitprune")]))
        for key, trial in search.trials.items()
    }
    found, kl = search.anchors()
    names = [str(found.chains[int(number)]) for number in found.chain]
    assert len(names) == kl.shape[1] == 3
    assert names[:2] == ["fitprune", "fitprune"]
    assert names[2] in map(str, CHAINS)
